"""The shortest ways through a graph: breadth-first from both ends, so that large switches in between stay folded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

Out = Mapping[int, Mapping[int, int]]
"""For each vertex its successors in order of preference, with the numbers of the links."""

Into = Mapping[int, Collection[int]]
"""For each vertex its predecessors."""

Layers = Sequence[Collection[int]]
"""The vertices that a shortest path may pass after 0, 1, 2 … links; the first and the last layer are its ends."""


def shortest_layers(
    out: Out, into: Into, src: int, dst: int, allowed: Callable[[int], bool] | None = None
) -> Layers | None:
    """All paths with the fewest links from `src` to `dst`, folded into layers of choices at each step.

    The search grows from the end with fewer links to follow. A vertex of a layer is on a shortest path if it has a
    link from a vertex of the previous layer that is on one.

    Args:
        out: Links away from each vertex.
        into: Links towards each vertex.
        src: Source vertex.
        dst: Destination vertex.
        allowed: Returns whether paths may pass a vertex; by default all.

    Returns:
        The layers, or None if there is no path.
    """
    fronts, seen = [{src: None}], {src}
    backs, left = [{dst: None}], {dst}
    while not any(vertex in left for vertex in fronts[-1]):
        if not (fronts[-1] and backs[-1]):
            return None
        if sum(len(out[vertex]) for vertex in fronts[-1]) <= sum(len(into[vertex]) for vertex in backs[-1]):
            fronts.append(_beyond(out, fronts[-1], seen, allowed))
        else:
            backs.append(_beyond(into, backs[-1], left, allowed))
    met = {vertex: None for vertex in fronts.pop() if vertex in left}
    layers = [met]
    while fronts:
        met = {vertex: None for vertex in fronts.pop() if any(other in met for other in out[vertex])}
        layers.append(met)
    return [*layers[::-1], *backs[-2::-1]]


def follow(out: Out, layers: Layers, flow: int = 0) -> list[int]:
    """One of the shortest paths: at each step the digits of `flow` select the next vertex.

    Args:
        out: Links away from each vertex.
        layers: From `shortest_layers`.
        flow: Any number; 0 selects the first choice everywhere, the path found first by breadth-first search from the
            source.

    Returns:
        The vertices of the path.
    """
    path = list(layers[0])
    for layer in layers[1:]:
        ways = ways_on(out[path[-1]], layer)
        flow, which = divmod(flow, len(ways))
        path.append(ways[which])
    return path


def distances(out: Out, src: int, may_follow: Callable[[int, int], bool] | None = None) -> dict[int, int]:
    """Links on a shortest path from `src` to every vertex that it reaches; a link may be ruled out by its ends."""
    found, front = {src: 0}, [src]
    while front:
        onward = []
        for vertex in front:
            for other in out[vertex]:
                if other not in found and (may_follow is None or may_follow(vertex, other)):
                    found[other] = found[vertex] + 1
                    onward.append(other)
        front = onward
    return found


def _beyond(
    links: Mapping[int, Collection[int]],
    front: Collection[int],
    seen: set[int],
    allowed: Callable[[int], bool] | None,
) -> dict[int, None]:
    """The vertices one link further away, in the order in which they are found."""
    found: dict[int, None] = {}
    for vertex in front:
        for other in links[vertex]:
            if other not in seen and (allowed is None or allowed(other)):
                seen.add(other)
                found[other] = None
    return found


def ways_on(reached: Mapping[int, int], layer: Collection[int]) -> list[int]:
    """The vertices of `layer` that a vertex has a link to, in the order of its links."""
    if len(reached) > len(layer):
        return sorted((vertex for vertex in layer if vertex in reached), key=reached.__getitem__)
    return [vertex for vertex in reached if vertex in layer]
