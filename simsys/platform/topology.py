"""Topologies: GPUs, switches, the links between them, and routes.

A topology is a directed graph. Vertices 0 … num_gpus-1 are the GPUs, in order of rank; further vertices are
switches, NICs and routers. A transfer uses a shortest path. Its time is the latency of every link plus, being
cut-through, one serialisation at the slowest link: Σ latency + nbytes / min bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from simsys.errors import InfeasibleError, UsageError
from simsys.platform.link_spec import LinkSpec, check_link
from simsys.platform.routes import FlatRoutes, NodeRoutes, NodeRouting, Routes
from simsys.platform.routing import SHORTEST, Routing, Way

_CACHED_ROUTES = 1 << 18  # bounds the memory of a topology whatever the number of pairs asked for


class TopologyError(UsageError):
    """A network that cannot be built; `setting` is the name of the setting to change in the experiment file."""

    def __init__(self, setting: str, message: str) -> None:
        self.setting = setting
        super().__init__(message)


@dataclass(frozen=True)
class Topology:
    """GPUs, switches and the links between them.

    Routes are computed on request, and cached.

    Args:
        num_gpus: GPUs; they are the first vertices.
        num_vertices: GPUs, switches, NICs and routers together.
        links: Directed links; their position is their index.
        name: Name for messages and reports.
        node_size: GPUs per node, numbered node by node; 1 for nodes with one GPU.
        names: Names of the vertices after the GPUs, for reports; empty if they have none.
        routing: Use of several shortest paths.
        groups: For each vertex its group, if routes may only pass the groups of their ends; else empty.
        nodes: Insides of nodes and the fabric; None for a single graph.

    Raises:
        UsageError: If a link has an end that is not a vertex, equal ends, no bandwidth or a negative latency.
    """

    num_gpus: int
    num_vertices: int
    links: tuple[LinkSpec, ...]
    name: str
    node_size: int = 1
    names: tuple[str, ...] = ()
    routing: Routing = SHORTEST
    groups: tuple[int, ...] = field(default=(), repr=False)
    nodes: NodeRouting | None = field(default=None, repr=False)
    _ways: dict[tuple[int, int], Way] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.num_gpus <= self.num_vertices:
            raise UsageError(f"a topology of {self.num_vertices} vertices cannot have {self.num_gpus} GPUs")
        for index, link in enumerate(self.links):
            check_link(link.bytes_per_s, link.latency_s)
            if not (0 <= link.src < self.num_vertices and 0 <= link.dst < self.num_vertices):
                self._check_vertex(link.src)
                self._check_vertex(link.dst)
            if link.src == link.dst:
                raise UsageError(f"link {index} of {self.name} joins vertex {link.src} to itself")
        object.__setattr__(self, "_ways", {})

    def way(self, src: int, dst: int) -> Way:
        """The links that a transfer uses, hop by hop, with their shares of its bytes; empty if `src` is `dst`.

        In a cluster of nodes, traffic within a node stays there, and other traffic leaves over the GPU's NIC. The
        answer is always the same. Near pairs are cheap in a large topology.

        Raises:
            UsageError: `src` or `dst` is not a vertex.
            InfeasibleError: No path leads from `src` to `dst`.
        """
        way = self._ways.get((src, dst))
        if way is None:
            self._check_vertex(src)
            self._check_vertex(dst)
            way = self._search(src, dst)
            if len(self._ways) >= _CACHED_ROUTES:
                self._ways.clear()
            self._ways[src, dst] = way
        return way

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Indexes of the links on one path of `way`, in order: of parallel links always the first that follows on."""
        path: list[int] = []
        vertex = src
        for hop in self.way(src, dst):
            link = next(link for link, _ in hop if self.links[link].src == vertex)
            path.append(link)
            vertex = self.links[link].dst
        return tuple(path)

    def hops(self, src: int, dst: int) -> int:
        """Number of links on the route."""
        return len(self.way(src, dst))

    def hops_from(self, gpu: int) -> dict[int, int]:
        """For every GPU that `gpu` reaches, itself included, the links on the way, without searching pair by pair."""
        found = self._finder.hops_from(gpu)
        return {other: found[other] for other in range(self.num_gpus) if other in found}

    def get_route(self, src: int, dst: int) -> list[int]:
        """Vertices on the route, both ends included."""
        return [src, *(self.links[index].dst for index in self.route(src, dst))]

    def check_gpu(self, gpu: int) -> None:
        """Raise UsageError if there is no such GPU."""
        if not 0 <= gpu < self.num_gpus:
            raise UsageError(f"{self.name} has GPUs 0 to {self.num_gpus - 1}, not {gpu!r}")

    def vertex_name(self, vertex: int) -> str:
        """The name of a vertex in reports, such as ``gpu 3 of node 1`` or ``leaf 2``."""
        if vertex < self.num_gpus:
            node, place = divmod(vertex, self.node_size)
            return f"gpu {place} of node {node}" if self.node_size > 1 else f"gpu {vertex}"
        return self.names[vertex - self.num_gpus] if self.names else f"vertex {vertex}"

    def link_name(self, link: int) -> str:
        """The name of a link in reports, by its number."""
        ends = self.links[link]
        return f"the link from {self.vertex_name(ends.src)} to {self.vertex_name(ends.dst)}"

    @cached_property
    def _finder(self) -> Routes:
        if self.nodes is None:
            return self._graph
        return NodeRoutes(self.links, self.node_size, self.nodes, self.groups)

    @cached_property
    def _graph(self) -> FlatRoutes:
        """All links of the network as one graph; in a cluster of nodes only for ends that are not GPUs."""
        return FlatRoutes(self.links, groups=self.groups)

    def _search(self, src: int, dst: int) -> Way:
        between_gpus = max(src, dst) < self.num_gpus
        way = (self._finder if between_gpus else self._graph).find(src, dst, self.routing)
        if way is None:
            raise InfeasibleError(f"no path leads from vertex {src} to vertex {dst} of {self.name}", "network")
        return way

    def _check_vertex(self, vertex: int) -> None:
        if not 0 <= vertex < self.num_vertices:
            raise UsageError(f"{self.name} has vertices 0 to {self.num_vertices - 1}, not {vertex!r}")


def with_nodes(graph: Topology, node_size: int, routing: Routing | None) -> Topology:
    """A graph of GPUs in nodes of `node_size`; `routing`, unless None, replaces its own."""
    return replace(graph, node_size=node_size, routing=routing or graph.routing)


def full_mesh(n: int, bytes_per_s: float, latency_s: float) -> Topology:
    """A link from each of `n` GPUs to each other: n(n-1) links, so for small groups."""
    pairs = ((i, j) for i in range(n) for j in range(n) if i != j)
    return _uniform("full_mesh", n, n, pairs, bytes_per_s, latency_s)


def ring(n: int, bytes_per_s: float, latency_s: float) -> Topology:
    """`n` GPUs in a circle, linked both ways; between opposite GPUs the way leads upwards."""
    return _uniform("ring", n, n, _circle(range(n)), bytes_per_s, latency_s)


def binary_tree(n: int, bytes_per_s: float, latency_s: float) -> Topology:
    """`n` GPUs as a complete binary tree in heap order: the parent of i is (i-1)//2."""
    pairs = (pair for child in range(1, n) for pair in both_ways(child, (child - 1) // 2))
    return _uniform("tree", n, n, pairs, bytes_per_s, latency_s)


def torus_2d(n: int, bytes_per_s: float, latency_s: float, dims: Sequence[int] | None = None) -> Topology:
    """`n` GPUs in rows and columns, each row and each column a ring.

    Args:
        n: GPUs; number row·columns + column is at that row and column.
        bytes_per_s: Bandwidth of each link and direction.
        latency_s: Latency of each link.
        dims: (rows, columns); by default as near to a square as the divisors of `n` allow, so that a prime
            number of GPUs is one ring. A side of 2 has one link, not two, and a side of 1 none.

    Raises:
        TopologyError: `dims` are not two or do not multiply to `n`.
        UsageError: Another argument is out of range.
    """
    return _torus("torus_2d", n, bytes_per_s, latency_s, 2, dims)


def torus_3d(n: int, bytes_per_s: float, latency_s: float, dims: Sequence[int] | None = None) -> Topology:
    """`n` GPUs in a block, each line along each of its three sides a ring.

    Arguments and errors as `torus_2d`; GPUs are numbered along the last side first, and a route goes along that
    side first too (dimension order).
    """
    return _torus("torus_3d", n, bytes_per_s, latency_s, 3, dims)


def _torus(
    name: str, n: int, bytes_per_s: float, latency_s: float, sides: int, dims: Sequence[int] | None
) -> Topology:
    check_count("n", n)
    shape = list(dims) if dims is not None else _even_sides(n, sides)
    if len(shape) != sides:
        raise TopologyError("dims", f"{name} has {sides} sides, not {len(shape)}: {shape}")
    if min(shape) < 1 or math.prod(shape) != n:
        text = f"a torus of {' x '.join(map(str, shape))} has {math.prod(shape)} places, but there are {n} to fill"
        raise TopologyError("dims", f"{text}; e.g. dims: {_even_sides(n, sides)}")
    pairs: list[tuple[int, int]] = []
    step = 1
    for side in reversed(shape):
        starts = (start for start in range(n) if start // step % side == 0)
        pairs += [pair for start in starts for pair in _circle(range(start, start + side * step, step))]
        step *= side
    return _uniform(name, n, n, pairs, bytes_per_s, latency_s)


def _even_sides(n: int, sides: int) -> list[int]:
    """Sides that multiply to `n`, as equal as its divisors allow, the shortest first."""
    if sides == 1:
        return [n]
    limit = round(n ** (1 / sides))
    firsts = [side for side in range(1, limit + 1) if n % side == 0 and side**sides <= n]
    shapes = [[first, *_even_sides(n // first, sides - 1)] for first in firsts]
    return min(shapes, key=sum)


def single_switch(n: int, bytes_per_s: float, latency_s: float) -> Topology:
    """`n` GPUs around one switch, vertex `n`, each with one link up and one down."""
    pairs = (pair for gpu in range(n) for pair in both_ways(gpu, n))
    return _uniform("switch", n, n + 1, pairs, bytes_per_s, latency_s, ("switch",))


def _uniform(
    name: str,
    num_gpus: int,
    num_vertices: int,
    pairs: Iterable[tuple[int, int]],
    bytes_per_s: float,
    latency_s: float,
    names: tuple[str, ...] = (),
) -> Topology:
    check_count("n", num_gpus)
    check_link(bytes_per_s, latency_s)
    links = tuple(LinkSpec(i, j, bytes_per_s, latency_s, name) for i, j in pairs)
    return Topology(num_gpus, num_vertices, links, name, names=names)


def both_ways(a: int, b: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two directions of a cable."""
    return (a, b), (b, a)


def _circle(vertices: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs around a circle, first all upwards and then all downwards, so that ties are broken alike everywhere."""
    n = len(vertices)
    up = [(vertices[i], vertices[(i + 1) % n]) for i in range(n)] if n > 1 else []
    return up + ([(b, a) for a, b in up] if n > 2 else [])


def check_count(what: str, count: int) -> None:
    """Raise UsageError unless `count` is at least 1."""
    if count < 1:
        raise UsageError(f"{what} must be at least 1, not {count!r}")
