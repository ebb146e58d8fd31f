"""Finds GPUs with equivalent links in a custom graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from simsys.platform.topology import Topology


def links_around(topology: Topology) -> Sequence[int]:
    """For each GPU, a number that is equal for GPUs with equivalent links, near and far.

    Vertices are distinguished by their links, then by the vertices at the other ends, and so on until nothing changes
    (colour refinement of the graph, as in `simsys.parallel.roles` for groups of ranks).

    Returns:
        The numbers; empty if all GPUs are equivalent.
    """
    around: list[list[tuple[int, float, float, bool]]] = [[] for _ in range(topology.num_vertices)]
    for link in topology.links:
        around[link.src].append((link.dst, link.bytes_per_s, link.latency_s, True))
        around[link.dst].append((link.src, link.bytes_per_s, link.latency_s, False))
    colours = _numbered([vertex < topology.num_gpus for vertex in range(topology.num_vertices)])
    while True:
        refined = _numbered(
            [
                (colours[vertex], tuple(sorted((*link, colours[other]) for other, *link in links)))
                for vertex, links in enumerate(around)
            ]
        )
        if max(refined) == max(colours):
            break
        colours = refined
    found = colours[: topology.num_gpus]
    return found if len(set(found)) > 1 else ()


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """Replace values by numbers from 0 in order of appearance; equal values get equal numbers."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]
