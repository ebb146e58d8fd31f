"""Which GPU is linked to which, and the way from one to another.

A topology is a directed graph. Vertices 0 … num_gpus-1 are the GPUs, in order of rank; further vertices are
switches, NICs and routers. A transfer takes a shortest path, pays the latency of every link on it and, being
cut-through, its serialisation once, at the slowest link: Σ latency + nbytes / min bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from simsys.errors import InfeasibleError, UsageError
from simsys.platform.shortest_path import shortest_path

_CACHED_ROUTES = 1 << 16  # bounds the memory of a topology whatever the number of pairs asked for


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a cable.

    Args:
        src: Vertex it comes from.
        dst: Vertex it goes to.
        bytes_per_s: Bandwidth in this direction.
        latency_s: Time the first byte takes.
        kind: What it belongs to, such as ``ring``, ``nvswitch`` or ``nic``.
    """

    src: int
    dst: int
    bytes_per_s: float
    latency_s: float
    kind: str


@dataclass(frozen=True)
class Topology:
    """GPUs, switches and the links between them.

    Args:
        num_gpus: GPUs; they are the first vertices.
        num_vertices: GPUs, switches, NICs and routers together.
        links: Directed links; their place in this tuple is their index.
        name: For messages and reports.
        node_size: GPUs per node, numbered node by node; 1 if there are no nodes of several GPUs.

    Raises:
        UsageError: A link has an end that is not a vertex, equal ends, no bandwidth or a negative latency.
    """

    num_gpus: int
    num_vertices: int
    links: tuple[LinkSpec, ...]
    name: str
    node_size: int = 1
    _out: list[dict[int, int]] = field(init=False, repr=False, compare=False)  # vertex -> {neighbour: link index}
    _into: list[list[int]] = field(init=False, repr=False, compare=False)  # vertex -> those with a link to it
    _routes: dict[tuple[int, int], tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.num_gpus <= self.num_vertices:
            raise UsageError(f"a topology of {self.num_vertices} vertices cannot have {self.num_gpus} GPUs")
        out: list[dict[int, int]] = [{} for _ in range(self.num_vertices)]
        into: list[list[int]] = [[] for _ in range(self.num_vertices)]
        for index, link in enumerate(self.links):
            check_link(link.bytes_per_s, link.latency_s)
            self._check_vertex(link.src)
            self._check_vertex(link.dst)
            if link.src == link.dst:
                raise UsageError(f"link {index} of {self.name} joins vertex {link.src} to itself")
            if link.dst not in out[link.src]:
                out[link.src][link.dst] = index
                into[link.dst].append(link.src)
        object.__setattr__(self, "_into", into)
        object.__setattr__(self, "_out", out)
        object.__setattr__(self, "_routes", {})

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Indexes of the links on a shortest path, in order; empty if `src` is `dst`.

        Of several shortest paths, breadth-first search in the order of the links decides, so the answer is
        always the same. Near pairs are cheap in a large topology.

        Raises:
            UsageError: `src` or `dst` is not a vertex.
            InfeasibleError: No path leads from `src` to `dst`.
        """
        route = self._routes.get((src, dst))
        if route is None:
            self._check_vertex(src)
            self._check_vertex(dst)
            route = self._search(src, dst) if src != dst else ()
            if len(self._routes) >= _CACHED_ROUTES:
                self._routes.clear()
            self._routes[src, dst] = route
        return route

    def ranks_per_node(self, gpus: Sequence[int]) -> int:
        """How many of `gpus` each node has, if they fill several nodes evenly, node by node; else 1."""
        nodes = [gpu // self.node_size for gpu in gpus]
        each = nodes.count(nodes[0])
        even = len(gpus) > each and all(len(set(nodes[i : i + each])) == 1 for i in range(0, len(nodes), each))
        return each if even and len(set(nodes)) * each == len(nodes) else 1

    def hops(self, src: int, dst: int) -> int:
        """Number of links on the route."""
        return len(self.route(src, dst))

    def get_route(self, src: int, dst: int) -> list[int]:
        """Vertices on the route, both ends included."""
        return [src, *(self.links[index].dst for index in self.route(src, dst))]

    def _search(self, src: int, dst: int) -> tuple[int, ...]:
        path = shortest_path(self._out, self._into, src, dst)
        if path is None:
            raise InfeasibleError(f"no path leads from vertex {src} to vertex {dst} of {self.name}")
        return tuple(self._out[a][b] for a, b in pairwise(path))

    def _check_vertex(self, vertex: int) -> None:
        if not 0 <= vertex < self.num_vertices:
            raise UsageError(f"{self.name} has vertices 0 to {self.num_vertices - 1}, not {vertex!r}")


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


def torus_2d(n: int, bytes_per_s: float, latency_s: float, dims: tuple[int, int] | None = None) -> Topology:
    """`n` GPUs in rows and columns, each row and each column a ring.

    Args:
        n: GPUs; number row·columns + column is at that row and column.
        bytes_per_s: Bandwidth of each link and direction.
        latency_s: Latency of each link.
        dims: (rows, columns); by default as near to a square as the divisors of `n` allow, so that a prime
            number of GPUs is one ring. A side of 2 has one link, not two, and a side of 1 none.

    Raises:
        UsageError: `dims` do not multiply to `n`, or another argument is out of range.
    """
    check_count("n", n)
    if dims is None:
        rows = max(side for side in range(1, math.isqrt(n) + 1) if n % side == 0)
        dims = rows, n // rows
    rows, columns = dims
    if rows < 1 or columns < 1 or rows * columns != n:
        raise UsageError(f"a torus of {rows} x {columns} has {rows * columns} GPUs, but there are {n}")
    rings = [range(row * columns, (row + 1) * columns) for row in range(rows)]
    rings += [range(column, n, columns) for column in range(columns)]
    return _uniform("torus_2d", n, n, (pair for side in rings for pair in _circle(side)), bytes_per_s, latency_s)


def single_switch(n: int, bytes_per_s: float, latency_s: float) -> Topology:
    """`n` GPUs around one switch, vertex `n`, each with one link up and one down."""
    pairs = (pair for gpu in range(n) for pair in both_ways(gpu, n))
    return _uniform("switch", n, n + 1, pairs, bytes_per_s, latency_s)


TOPOLOGY_TYPES: Mapping[str, Callable[[int, float, float], Topology]] = {
    "full_mesh": full_mesh,
    "ring": ring,
    "tree": binary_tree,
    "torus_2d": torus_2d,
    "switch": single_switch,
}
"""Builders by the name an experiment file uses: GPUs, bandwidth in bytes/s and latency in s of every link."""


def _uniform(
    name: str,
    num_gpus: int,
    num_vertices: int,
    pairs: Iterable[tuple[int, int]],
    bytes_per_s: float,
    latency_s: float,
) -> Topology:
    check_count("n", num_gpus)
    check_link(bytes_per_s, latency_s)
    return Topology(
        num_gpus, num_vertices, tuple(LinkSpec(i, j, bytes_per_s, latency_s, name) for i, j in pairs), name
    )


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


def check_link(bytes_per_s: float, latency_s: float) -> None:
    """Raise UsageError unless a link can have this bandwidth and latency."""
    if not 0.0 < bytes_per_s < math.inf:
        raise UsageError(f"a link's bandwidth must be positive and finite, not {bytes_per_s!r} bytes/s")
    if not 0.0 <= latency_s < math.inf:
        raise UsageError(f"a link's latency must be finite and not negative, not {latency_s!r} s")
