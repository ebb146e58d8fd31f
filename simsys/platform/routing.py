"""Use of shortest paths by transfers: one path, several paths selected by hashes, or all paths.

* ``shortest``: the first path in breadth-first order of the links (dimension order in a torus).
* ``ecmp``: switches hash the header of a packet (equal-cost multi-path, RFC 2992), so each queue pair of a transfer
  stays on one path. NCCL opens a connection per channel and peer and sends an equal part over each of its queue pairs
  (``NCCL_IB_QPS_PER_CONNECTION``), so `Routing.qps` hashes share the bytes.
* ``per_packet``: every switch sprays packets evenly over its links towards the destination (Dixit et al. 2013, "On the
  impact of packet spraying in data center networks", INFOCOM).
* ``adaptive``: switches prefer links with short queues (adaptive routing of InfiniBand and Spectrum-X), so over time
  the bytes are spread in proportion to the capacity of the paths behind each link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Literal, TypeAlias

from simsys.platform.shortest_path import Layers, Out, follow, ways_on
from simsys.sums import ordered_sum

RoutingKind: TypeAlias = Literal["shortest", "ecmp", "per_packet", "adaptive"]

Hop: TypeAlias = tuple[tuple[int, float], ...]
"""Parallel links, each as its index and its share of the bytes; the shares add up to 1."""

Way: TypeAlias = tuple[Hop, ...]
"""The hops of a transfer from its source to its destination."""

DEFAULT_QPS = 4
"""Queue pairs per peer where nothing else is said: NCCL uses several channels to a peer, each with its own."""


@dataclass(frozen=True, slots=True)
class Routing:
    """A routing policy.

    Args:
        kind: See the head of this module.
        seed: Changes the hashes of ``ecmp``.
        qps: Queue pairs of each transfer under ``ecmp``.
    """

    kind: RoutingKind = "shortest"
    seed: int = 0
    qps: int = DEFAULT_QPS

    @property
    def spreads(self) -> bool:
        """Whether a transfer uses all shortest paths, so that its way depends on the switches at its ends alone."""
        return self.kind in ("per_packet", "adaptive")

    def hops(
        self, out: Out, layers: Layers, flow: tuple[int, int], bytes_per_s: Callable[[int], float]
    ) -> tuple[Hop, ...]:
        """The links that a transfer uses.

        Args:
            out: Links away from each vertex.
            layers: All shortest paths, from `shortest_layers`.
            flow: Source and destination GPU, which decide the hashes.
            bytes_per_s: Bandwidth of a link by its index.
        """
        if self.spreads:
            return _spread(out, layers, bytes_per_s if self.kind == "adaptive" else lambda _: 1.0)
        if self.kind == "shortest":
            return _hops(out, [follow(out, layers)])
        return _hops(out, [follow(out, layers, self._hash(flow, pair)) for pair in range(self.qps)])

    def _hash(self, flow: tuple[int, int], pair: int) -> int:
        """A number of 64 bits for one queue pair, the same in every run."""
        text = b"%d>%d/%d/%d" % (*flow, pair, self.seed)
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


SHORTEST = Routing()
"""One path for every transfer, the first."""


def _hops(out: Out, paths: Sequence[Sequence[int]]) -> tuple[Hop, ...]:
    """Equally long paths that share the bytes evenly."""
    hops: list[dict[int, int]] = [{} for _ in paths[0][1:]]
    for path in paths:
        for hop, (here, there) in zip(hops, pairwise(path), strict=True):
            link = out[here][there]
            hop[link] = hop.get(link, 0) + 1
    return tuple(tuple((link, count / len(paths)) for link, count in hop.items()) for hop in hops)


def _spread(out: Out, layers: Layers, bytes_per_s: Callable[[int], float]) -> tuple[Hop, ...]:
    """All paths at once: each switch divides bytes in proportion to the capacity of the paths behind its links."""
    capacity = _capacities(out, layers, bytes_per_s)
    arriving: Mapping[int, float] = {next(iter(layers[0])): 1.0}
    hops: list[Hop] = []
    for layer in layers[1:]:
        links: dict[int, float] = {}
        onward: dict[int, float] = {}
        for vertex, share in arriving.items():
            ways = [(out[vertex][other], other) for other in ways_on(out[vertex], layer)]
            weights = [min(bytes_per_s(link), capacity[other]) for link, other in ways]
            total = ordered_sum(weights)
            for (link, other), weight in zip(ways, weights, strict=True):
                part = share * (weight / total)
                links[link] = part
                onward[other] = onward.get(other, 0.0) + part
        hops.append(tuple(links.items()))
        arriving = onward
    return tuple(hops)


def _capacities(out: Out, layers: Layers, bytes_per_s: Callable[[int], float]) -> dict[int, float]:
    """Bytes/s that the paths from each vertex to the destination can carry, if links are used by nothing else."""
    capacity = {next(iter(layers[-1])): float("inf")}
    for before, layer in zip(layers[-2::-1], layers[:0:-1], strict=True):
        for vertex in before:
            ways = ways_on(out[vertex], layer)
            capacity[vertex] = ordered_sum(min(bytes_per_s(out[vertex][other]), capacity[other]) for other in ways)
    return capacity


def link_loads(ways: Iterable[Way]) -> dict[int, float]:
    """Bytes that each link has to carry for one byte on each of the ways."""
    load: dict[int, float] = {}
    spread: dict[int, tuple[Hop, list[None]]] = {}  # transfers that spread over the same links share a hop
    for way in ways:
        for hop in way:
            if len(hop) == 1:
                link, share = hop[0]
                load[link] = load.get(link, 0.0) + share
            else:
                spread.setdefault(id(hop), (hop, []))[1].append(None)
    for hop, times in spread.values():
        for link, share in hop:
            load[link] = load.get(link, 0.0) + len(times) * share
    return load
