"""The shortest way through a graph: breadth-first from both ends, so that large switches in between stay folded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def shortest_path(
    out: Sequence[Mapping[int, int]], into: Sequence[Collection[int]], src: int, dst: int
) -> list[int] | None:
    """A path with the fewest links; of several, the one that breadth-first search from `src` comes upon first.

    Both ends take turns, whichever has fewer links to follow. Where they meet, what is left of the search from `src`
    need not look at vertices off the shortest paths: they never change which of the others come first.

    Args:
        out: For each vertex those that its links lead to, in the order of the search, with the links' numbers.
        into: For each vertex those that have a link to it.
        src: Where the path begins.
        dst: Where it ends.

    Returns:
        The vertices from `src` to `dst`, or None if there is no path.
    """
    before, front = {src: src}, [src]
    left, backs = {dst: 0}, [[dst]]
    while not (meeting := [vertex for vertex in front if vertex in left]):
        if not (front and backs[-1]):
            return None
        if sum(len(out[vertex]) for vertex in front) <= sum(len(into[vertex]) for vertex in backs[-1]):
            front = _onward(out, front, before)
        else:
            backs.append(_backward(into, backs[-1], left))
    for ring in reversed(backs[: left[meeting[0]]]):
        meeting = _through(out, meeting, ring, before)
    path = [dst]
    while path[-1] != src:
        path.append(before[path[-1]])
    return path[::-1]


def _onward(out: Sequence[Mapping[int, int]], front: Sequence[int], before: dict[int, int]) -> list[int]:
    """The vertices one link further away from the source, in the order in which they are found."""
    found = []
    for vertex in front:
        for neighbour in out[vertex]:
            if neighbour not in before:
                before[neighbour] = vertex
                found.append(neighbour)
    return found


def _backward(into: Sequence[Collection[int]], back: Sequence[int], left: dict[int, int]) -> list[int]:
    """The vertices one link further away from the destination."""
    found = []
    for vertex in back:
        for neighbour in into[vertex]:
            if neighbour not in left:
                left[neighbour] = left[vertex] + 1
                found.append(neighbour)
    return found


def _through(
    out: Sequence[Mapping[int, int]], front: Sequence[int], ring: Sequence[int], before: dict[int, int]
) -> list[int]:
    """As `_onward`, but only to vertices of `ring`."""
    found = []
    for vertex in front:
        reached = out[vertex]
        for neighbour in sorted((each for each in ring if each in reached), key=reached.__getitem__):
            if neighbour not in before:
                before[neighbour] = vertex
                found.append(neighbour)
    return found
