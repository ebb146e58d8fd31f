"""Search from both ends: the same path as plain breadth-first search finds, for less work."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from simsys.platform.shortest_path import distances, follow, shortest_layers

Graph = list[dict[int, int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Vertices with their neighbours, numbered in any order."""
    size = draw(st.integers(1, 10))
    neighbours = st.lists(st.integers(0, size - 1), unique=True, max_size=size)
    numbers = iter(range(size * size))
    return [{other: next(numbers) for other in draw(neighbours) if other != vertex} for vertex in range(size)]


def sources(out: Graph) -> list[list[int]]:
    """For each vertex those that have a link to it."""
    return [[vertex for vertex, others in enumerate(out) if target in others] for target in range(len(out))]


def breadth_first(out: Graph, src: int, dst: int) -> list[int] | None:
    """The reference: the first path found by one search from the source."""
    paths, queue = {src: [src]}, deque([src])
    while queue:
        vertex = queue.popleft()
        if vertex == dst:
            return paths[vertex]
        for other in out[vertex]:
            if other not in paths:
                paths[other] = [*paths[vertex], other]
                queue.append(other)
    return None


def first_path(out: Graph, src: int, dst: int) -> list[int] | None:
    layers = shortest_layers(dict(enumerate(out)), dict(enumerate(sources(out))), src, dst)
    return None if layers is None else follow(dict(enumerate(out)), layers)


def all_shortest_paths(out: Graph, src: int, dst: int) -> set[tuple[int, ...]]:
    """The reference: paths prolonged by every link until some of them arrive."""
    paths = {(src,)}
    for _ in out:
        if arrived := {path for path in paths if path[-1] == dst}:
            return arrived
        paths = {(*path, other) for path in paths for other in out[path[-1]] if other not in path}
    return set()


@given(graphs())
@example([{1: 0, 2: 1}, {3: 2}, {3: 3}, {4: 4, 5: 5}, {6: 6}, {6: 7}, {}])  # two ways, twice
def test_the_path_is_the_one_of_breadth_first_search(out: Graph) -> None:
    for src in range(len(out)):
        for dst in range(len(out)):
            assert first_path(out, src, dst) == breadth_first(out, src, dst)


@given(graphs())
@example([{1: 0, 2: 1}, {3: 2}, {3: 3}, {4: 4, 5: 5}, {6: 6}, {6: 7}, {}])
def test_flows_take_all_shortest_paths_and_no_others(out: Graph) -> None:
    links, into = dict(enumerate(out)), dict(enumerate(sources(out)))
    for src in range(len(out)):
        for dst in range(len(out)):
            layers = shortest_layers(links, into, src, dst)
            taken = set() if layers is None else {tuple(follow(links, layers, flow)) for flow in range(200)}
            expected = all_shortest_paths(out, src, dst)
            assert taken <= expected
            assert bool(taken) == bool(expected)
            if 0 < len(expected) <= 8:
                assert taken == expected


@given(graphs())
def test_distances_are_the_lengths_of_the_paths(out: Graph) -> None:
    links = dict(enumerate(out))
    for src in range(len(out)):
        paths = {dst: breadth_first(out, src, dst) for dst in range(len(out))}
        assert distances(links, src) == {dst: len(path) - 1 for dst, path in paths.items() if path is not None}


def test_the_links_of_a_switch_in_between_are_not_followed() -> None:
    """Leaf - port - switch - port - leaf; only the ports' own neighbours are looked at."""

    class Switch(dict[int, int]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise AssertionError("the switch is unfolded")

    leaves = 1000
    switch = 2 * leaves
    out: Graph = [{leaves + leaf: 0} for leaf in range(leaves)]
    out += [{leaf: 1, switch: 2} for leaf in range(leaves)]
    out.append(Switch({leaves + leaf: 3 + leaf for leaf in range(leaves)}))
    into = [[leaves + leaf] for leaf in range(leaves)] + [[leaf, switch] for leaf in range(leaves)]
    into.append(list(range(leaves, switch)))
    links = dict(enumerate(out))
    layers = shortest_layers(links, dict(enumerate(into)), 7, 901)
    assert layers is not None
    assert follow(links, layers) == [7, leaves + 7, switch, leaves + 901, 901]
