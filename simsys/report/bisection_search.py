"""A search for two halves of a network with little bandwidth between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from simsys.report.bisection_graph import CutGraph
from simsys.sums import ordered_sum

FLOW_STEPS = 20_000
"""Limit of links times maximum flows of a search; with switches, a cut needs one flow."""

MOST_CUTS = 100
"""Limit of cuts of a search without switches."""

MOST_SPECTRAL = 600
"""Limit of vertices for the eigenvector."""

CANDIDATES = 12
"""Number of nodes of each half compared for an exchange, the most promising ones."""


def cut_bytes_per_s(graph: CutGraph, half: set[int]) -> float:
    """Bandwidth from some nodes to all others, with every switch on its best side."""
    return _cut(graph, half)[0]


def best_found(graph: CutGraph, enough: float, *, symmetric: bool) -> float:
    """The least bandwidth between halves that the search finds; it stops at `enough` or less.

    Initial halves follow the order of numbers, columns of every length that divides the nodes (one of them is a side
    of a torus), and the eigenvector of the second eigenvalue (Fiedler 1973). The best is improved by exchanges as in
    Kernighan and Lin (1970).
    """
    cuts = max(2, FLOW_STEPS // graph.num_links) if graph.free else MOST_CUTS
    tried: list[tuple[float, set[int]]] = []
    for half in _starts(graph):
        sides = [half] if symmetric else [half, set(range(graph.num_nodes)) - half]
        tried += [(cut_bytes_per_s(graph, side), side) for side in sides]
        cuts -= len(sides)
        if min(value for value, _ in tried) <= enough * (1.0 + 1e-9) or cuts < 2:
            break
    tried.sort(key=lambda found: found[0])
    least = tried[0][0]
    for value, half in tried[:3]:
        while cuts > 0 and least > enough * (1.0 + 1e-9):
            half, cuts = _exchanged(graph, half), cuts - 1
            better = cut_bytes_per_s(graph, half)
            if better >= value:
                break
            value = better
            least = min(least, value)
    return least


def _cut(graph: CutGraph, half: set[int]) -> tuple[float, set[int]]:
    """The bandwidth from some nodes to all others, and all vertices on their side."""
    if not graph.free:
        return ordered_sum(rate for src in half for dst, rate in graph.out[src].items() if dst not in half), set(half)
    import networkx as nx

    network = nx.DiGraph()
    network.add_weighted_edges_from(graph.links(), weight="capacity")
    for node in range(graph.num_nodes):
        network.add_edge(*(("first", node) if node in half else (node, "second")))
    value, (first, _) = nx.minimum_cut(network, "first", "second", flow_func=nx.algorithms.flow.dinitz)
    return float(value), set(first) - {"first"}


def _starts(graph: CutGraph) -> Iterator[set[int]]:
    """The initial halves of a search."""
    n = graph.num_nodes
    for length in (length for length in range(n, 1, -1) if n % length == 0):
        yield _first_half(range(n), [node % length for node in range(n)])
    if len(graph.out) <= MOST_SPECTRAL:
        yield _first_half(range(n), _eigenvector(graph)[:n])


def _first_half(nodes: Iterable[int], keys: Iterable[float]) -> set[int]:
    in_order = [node for _, node in sorted(zip(keys, nodes, strict=True))]
    return set(in_order[: len(in_order) // 2])


def _eigenvector(graph: CutGraph) -> list[float]:
    """The second eigenvector of the Laplacian, nodes first, rounded so that equal values are equal."""
    place = {vertex: index for index, vertex in enumerate([*range(graph.num_nodes), *graph.free])}
    laplacian = np.zeros((len(place), len(place)))
    for src, dst, rate in graph.links():
        a, b = place[src], place[dst]
        laplacian[a, b] -= rate
        laplacian[b, a] -= rate
        laplacian[a, a] += rate
        laplacian[b, b] += rate
    _, vectors = np.linalg.eigh(laplacian)
    return [float(value) for value in np.round(vectors[:, 1], 9)]


def _exchanged(graph: CutGraph, half: set[int]) -> set[int]:
    """The best halves along a sequence of exchanges; each node is exchanged at most once, the best pair first."""
    inside = _cut(graph, half)[1]
    left, right = set(half), set(range(graph.num_nodes)) - half
    change, best, best_half = 0.0, -1e-9, set(half)
    for _ in range(min(len(left), len(right))):
        gains = {node: _change(graph, node, inside) for node in (*left, *right)}
        firsts, seconds = (sorted(side, key=lambda node: (gains[node], node))[:CANDIDATES] for side in (left, right))
        pairs = ((gains[a] + gains[b] + _between(graph, a, b), a, b) for a in firsts for b in seconds)
        step, a, b = min(pairs)
        change += step
        inside = (inside - {a}) | {b}
        change += _settle(graph, inside)
        left.discard(a)
        right.discard(b)
        if change < best:
            best, best_half = change, {node for node in inside if node < graph.num_nodes}
    return best_half


def _change(graph: CutGraph, vertex: int, inside: set[int]) -> float:
    """By how much the bandwidth that leaves `inside` changes if a vertex changes sides."""
    out = ordered_sum(rate for dst, rate in graph.out[vertex].items() if dst not in inside)
    into = ordered_sum(rate for src, rate in graph.into[vertex].items() if src in inside)
    return into - out if vertex in inside else out - into


def _between(graph: CutGraph, a: int, b: int) -> float:
    """The effect of exchanging two nodes beyond the sum of both single moves."""
    return graph.out[a].get(b, 0.0) + graph.out[b].get(a, 0.0)


def _settle(graph: CutGraph, inside: set[int]) -> float:
    """Move switches to the other side while that helps; return the change of bandwidth."""
    total, waiting = 0.0, graph.free
    while waiting:
        vertex = waiting.pop()
        change = _change(graph, vertex, inside)
        if change < -1e-9:
            inside.symmetric_difference_update({vertex})
            total += change
            waiting += [near for near in graph.neighbours(vertex) if near >= graph.num_nodes]
    return total
