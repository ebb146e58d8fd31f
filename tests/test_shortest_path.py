"""Search from both ends: the same path as plain breadth-first search finds, for less work."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from simsys.platform.shortest_path import shortest_path

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


@given(graphs())
@example([{1: 0, 2: 1}, {3: 2}, {3: 3}, {4: 4, 5: 5}, {6: 6}, {6: 7}, {}])  # two ways, twice
def test_the_path_is_the_one_of_breadth_first_search(out: Graph) -> None:
    into = sources(out)
    for src in range(len(out)):
        for dst in range(len(out)):
            assert shortest_path(out, into, src, dst) == breadth_first(out, src, dst)


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
    assert shortest_path(out, into, 7, 901) == [7, leaves + 7, switch, leaves + 901, 901]
