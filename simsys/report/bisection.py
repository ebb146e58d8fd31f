"""The bisection bandwidth of a network: the least bandwidth between two halves of its nodes, over all halves.

Finding it is NP-hard in general. It is exact for trees (and so for a switch, fat trees and rails, whose equal switches
count as one), for small networks, whose halves are all tried, and where a lower bound meets it, as in rings, tori and
full meshes. Otherwise it is an upper bound: the best of the halves that a search has tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from simsys.platform.topology import Topology
from simsys.report.bisection_graph import CutGraph
from simsys.report.bisection_search import best_found, cut_bytes_per_s

MOST_LINKS = 6_000
"""Size limit of a graph with cycles; maximum flow in a larger one needs more than seconds."""

MOST_HALVES = {True: 70, False: 2_000}
"""Limits of halves tried one by one: with switches (a maximum flow per half) and without."""

MOST_STEPS_OF_A_BOUND = 3_000_000
"""Limit of vertices times links for the search for a lower bound."""


@dataclass(frozen=True)
class Bisection:
    """The least bandwidth between two halves of the nodes (or GPUs of one node); sizes differ by one at most.

    Args:
        bytes_per_s: From one half to the other, whatever the routing.
        exact: Whether no halves have less; otherwise it is an upper bound.
        symmetric: Whether it is the same in both directions; otherwise `bytes_per_s` is the lower one.
    """

    bytes_per_s: float
    exact: bool
    symmetric: bool


def bisection(topology: Topology) -> Bisection | None:
    """The bisection bandwidth; None for one GPU, and for large networks that are no trees."""
    graph = CutGraph.of(topology)
    if graph.num_nodes < 2:
        return None
    symmetric = graph.symmetric
    if graph.is_tree:
        return Bisection(_of_tree(graph), True, symmetric)
    if graph.num_links > MOST_LINKS:
        return None
    few = _number_of_halves(graph, symmetric=symmetric) <= MOST_HALVES[bool(graph.free)]
    if few:
        least = min(cut_bytes_per_s(graph, half) for half in _halves(graph, symmetric=symmetric))
        return Bisection(least, True, symmetric)
    bound = _lower_bound(graph)
    found = best_found(graph, bound, symmetric=symmetric)
    return Bisection(found, bool(found <= bound * (1.0 + 1e-9)), symmetric)


def _number_of_halves(graph: CutGraph, *, symmetric: bool) -> int:
    """The number of ways to halve the nodes."""
    n = graph.num_nodes
    if n % 2:
        return comb(n, n // 2) * (1 if symmetric else 2)
    return comb(n, n // 2) // (2 if symmetric else 1)


def _halves(graph: CutGraph, *, symmetric: bool) -> Iterator[set[int]]:
    """One side of every way to halve the nodes; both sides where the direction counts."""
    n = graph.num_nodes
    if symmetric and n % 2 == 0:
        yield from ({0, *rest} for rest in combinations(range(1, n), n // 2 - 1))
        return
    yield from map(set, combinations(range(n), n // 2))
    if not symmetric and n % 2:
        yield from map(set, combinations(range(n), n // 2 + 1))


def _of_tree(graph: CutGraph) -> float:
    """The least bandwidth from one half to the other in a tree, by how many nodes of each subtree are in the first.

    Tables of subtrees are joined one by one as in the knapsack problem, in O(n²) together (Jansen et al. 2005,
    "Polynomial time approximation schemes for max-bisection on planar and geometric graphs").
    """
    order, parent = [0], {0: -1}
    for vertex in order:
        for near in sorted(graph.neighbours(vertex)):
            if near != parent[vertex]:
                parent[near] = vertex
                order.append(near)
    tables: dict[int, list[Any]] = {}
    for vertex in order:
        node = vertex < graph.num_nodes
        tables[vertex] = [np.array([np.inf, 0.0] if node else [0.0]), np.array([0.0, np.inf] if node else [0.0])]
    for vertex in reversed(order[1:]):
        first, second = tables.pop(vertex)
        above = parent[vertex]
        down, up = graph.out[above].get(vertex, 0.0), graph.into[above].get(vertex, 0.0)
        tables[above][0] = _least_sums(tables[above][0], np.minimum(first, second + down))
        tables[above][1] = _least_sums(tables[above][1], np.minimum(second, first + up))
    n = graph.num_nodes
    return float(min(table[k] for table in tables[0] for k in (n // 2, n - n // 2)))


def _least_sums(left: Any, right: Any) -> Any:
    """For each total number of nodes, the least sum of what two subtrees cost with these nodes together."""
    if len(left) < len(right):
        left, right = right, left
    sums = np.full(len(left) + len(right) - 1, np.inf)
    for k, cost in enumerate(right):
        np.minimum(sums[k : k + len(left)], left + cost, out=sums[k : k + len(left)])
    return sums


def _lower_bound(graph: CutGraph) -> float:
    """What every pair of halves has at least: traffic of each node to each other, on shortest paths, divided evenly.

    If the busiest link carries ρ seconds of it, the links between halves A and B, over which |A|·|B| of it go, have at
    least |A|·|B|/ρ (Leighton 1992, "Introduction to Parallel Algorithms and Architectures").
    """
    if len(graph.out) * graph.num_links > MOST_STEPS_OF_A_BOUND:
        return 0.0
    import networkx as nx

    network = nx.DiGraph()
    network.add_edges_from((src, dst) for src, dst, _ in graph.links())
    nodes: Sequence[int] = range(graph.num_nodes)
    loads = nx.edge_betweenness_centrality_subset(network, nodes, nodes, normalized=False)
    busiest_s = max(loads[src, dst] / bytes_per_s for src, dst, bytes_per_s in graph.links())
    half = graph.num_nodes // 2
    return float(half * (graph.num_nodes - half) / busiest_s)
