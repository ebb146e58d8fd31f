"""A user's own network, as a list of edges between named vertices.

``gpu3`` is GPU 3 and ``node3`` is node 3 of the cluster; every other name is a switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from simsys.platform.link_spec import LinkSpec
from simsys.platform.routes import FlatRoutes
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology, TopologyError, check_count

Ends: TypeAlias = Literal["gpu", "node"]
"""Kinds of vertices: all GPUs, or nodes with their own insides and NICs."""

_END = re.compile(r"(gpu|node)(0|[1-9]\d{0,8})", re.ASCII)
_MEANT_AS_END = re.compile(r"(gpu|node)[\s_-]*\d+", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Edge:
    """A cable.

    Args:
        src: Name of the source vertex.
        dst: Name of the destination vertex.
        bytes_per_s: Bandwidth of each direction; None for the default of the network.
        latency_s: Latency of each direction; None for the default of the network.
        bidirectional: True for both directions.
        kind: Name of its kind in reports.
    """

    src: str
    dst: str
    bytes_per_s: float | None = None
    latency_s: float | None = None
    bidirectional: bool = True
    kind: str = "custom"


@dataclass(frozen=True, slots=True)
class EdgeProblem:
    """A problem of an edge (`field` is ``src`` or ``dst``), or of the whole graph if `edge` is None."""

    message: str
    edge: int | None = None
    field: str = ""


def joined(edges: Iterable[Edge]) -> Ends:
    """The kind of vertices of a graph: nodes if it names any, else GPUs."""
    named = (_END.fullmatch(name) for edge in edges for name in (edge.src, edge.dst))
    return "node" if any(match is not None and match[1] == "node" for match in named) else "gpu"


def edge_problems(edges: Sequence[Edge], n: int) -> list[EdgeProblem]:
    """All problems of edges as a network of `n` GPUs or nodes.

    They are an edge from a vertex to itself, a duplicate link, GPUs mixed with nodes, a GPU or node that the cluster
    does not have, and one that cannot be reached from another.
    """
    ends, found = joined(edges), []
    first: dict[tuple[str, str], int] = {}
    for index, edge in enumerate(edges):
        for field in ("src", "dst"):
            name = getattr(edge, field)
            match = _END.fullmatch(name)
            if match is None:
                if _MEANT_AS_END.fullmatch(name):
                    found.append(EdgeProblem(f"write gpu0 or node0 for GPU or node 0, not {name!r}", index, field))
            elif match[1] != ends:
                text = f"{name} is mixed with nodes; a graph connects either GPUs (gpu0, gpu1 …) or nodes (node0 …)"
                found.append(EdgeProblem(text, index, field))
            elif int(match[2]) >= n:
                text = f"there is no {name}: the cluster has {ends}0 to {ends}{n - 1}"
                found.append(EdgeProblem(text, index, field))
        if edge.src == edge.dst:
            found.append(EdgeProblem(f"an edge from {edge.src} to itself", index, "dst"))
            continue
        for pair in _directions(edge):
            if pair in first:
                text = f"{pair[0]} to {pair[1]} is joined twice, also by edge {first[pair]} (counted from 0)"
                found.append(EdgeProblem(f"{text}; give one edge with the bandwidth of both", index, "src"))
                break
            first[pair] = index
    return found or _unreachable(edges, ends, n)


def custom_graph(n: int, bytes_per_s: float, latency_s: float, *, edges: Sequence[Edge] = ()) -> Topology:
    """The user's own edges between GPUs or nodes and switches; every vertex forwards.

    Args:
        n: GPUs, or nodes.
        bytes_per_s: Bandwidth of edges that have none of their own.
        latency_s: Latency of edges that have none of their own.
        edges: The cables.

    Raises:
        TopologyError: With everything that `edge_problems` finds.
        UsageError: `n` or a figure of an edge is out of range.
    """
    check_count("n", n)
    if problems := edge_problems(edges, n):
        raise TopologyError("edges", "; ".join(problem.message for problem in problems))
    numbers, names = _numbers(edges, n)
    links = [
        LinkSpec(
            numbers[src],
            numbers[dst],
            bytes_per_s if edge.bytes_per_s is None else edge.bytes_per_s,
            latency_s if edge.latency_s is None else edge.latency_s,
            edge.kind,
        )
        for edge in edges
        for src, dst in _directions(edge)
    ]
    return Topology(n, n + len(names), tuple(links), "custom", names=tuple(names), routing=Routing("adaptive"))


def _directions(edge: Edge) -> list[tuple[str, str]]:
    """The links of an edge, by the names of their ends."""
    pair = (edge.src, edge.dst)
    return [pair, pair[::-1]] if edge.bidirectional else [pair]


def _numbers(edges: Iterable[Edge], n: int) -> tuple[dict[str, int], list[str]]:
    """The vertex of each name, and the names of switches in the order of their vertices."""
    numbers: dict[str, int] = {}
    names: list[str] = []
    for edge in edges:
        for name in (edge.src, edge.dst):
            if name not in numbers:
                match = _END.fullmatch(name)
                numbers[name] = int(match[2]) if match else n + len(names)
                names += [] if match else [name]
    return numbers, names


def _unreachable(edges: Sequence[Edge], ends: Ends, n: int) -> list[EdgeProblem]:
    """GPUs or nodes without a way from the first, or without one to it."""
    numbers, _ = _numbers(edges, n)
    pairs = [(numbers[src], numbers[dst]) for edge in edges for src, dst in _directions(edge)]
    backwards = [(dst, src) for src, dst in pairs]
    for way, directed in ((f"from {ends}0 to", pairs), (f"to {ends}0 from", backwards)):
        reached = FlatRoutes([LinkSpec(src, dst, 1.0, 0.0, "") for src, dst in directed]).hops_from(0)
        lost = [f"{ends}{number}" for number in range(n) if number not in reached]
        if lost:
            shown = ", ".join(lost[:8]) + (f" … ({len(lost)} in all)" if len(lost) > 8 else "")
            return [EdgeProblem(f"the graph is not connected: no way leads {way} {shown}")]
    return []
