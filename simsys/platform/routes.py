"""The path of a transfer: through one graph, or out of a node, over the fabric and into another node.

The routing selects among shortest paths (`simsys.platform.routing`); inside a node, it is always the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from simsys.platform.link_spec import LinkSpec
from simsys.platform.routing import SHORTEST, Hop, Routing, Way
from simsys.platform.shortest_path import Layers, distances, shortest_layers

_CACHED_LAYERS = 128  # flows between the same switches share them; of three levels of switches they hold thousands


@dataclass(frozen=True, slots=True)
class Exit:
    """How a GPU gets from its node to the fabric and back, over its NIC.

    Args:
        door: The vertex inside the node that the NIC hangs on: the GPU itself, or a PCIe switch.
        out: Indexes of the links from there to the port.
        port: The vertex of the fabric that the NIC is connected to.
        into: Indexes of the links from the port back to the door.
    """

    door: int
    out: tuple[int, ...]
    port: int
    into: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeRouting:
    """Distinguishes links inside nodes from the fabric between them.

    Args:
        exits: The exit of each GPU.
        inside: Number of links inside nodes; these come first.
        fabric: Index of the first link of the fabric; those in between belong to NICs.
        pxn: Whether traffic for another rail first goes to the GPU of its own node that is on that rail.
    """

    exits: tuple[Exit, ...]
    inside: int
    fabric: int
    pxn: bool = False


class Routes(Protocol):
    """Finds ways through a network."""

    def find(self, src: int, dst: int, routing: Routing) -> Way | None:
        """The way from `src` to `dst`; None if there is none."""

    def hops_from(self, gpu: int) -> dict[int, int]:
        """Links on the way from a GPU to every vertex that it reaches; of a cluster of nodes, to every GPU."""


_INSIDE = SHORTEST
"""Routing inside a node: the first of several shortest paths."""


@lru_cache(maxsize=1 << 16)
def _whole(link: int) -> Hop:
    """A link that carries all the bytes, the same object in all ways."""
    return ((link, 1.0),)


def _in_a_row(links: Iterable[int]) -> Way:
    """Links one after another that carry all the bytes."""
    return tuple([_whole(link) for link in links])


class FlatRoutes:
    """Ways through one graph, in which every vertex forwards.

    Args:
        links: The network's links.
        indexes: Which of them the graph consists of; all by default.
        groups: For each vertex its group, if a route may only pass the groups of its ends (as minimal routing in a
            dragonfly); empty if there are none.
    """

    def __init__(self, links: Sequence[LinkSpec], indexes: Iterable[int] | None = None, groups: Sequence[int] = ()):
        self.out: dict[int, dict[int, int]] = {}
        self.into: dict[int, list[int]] = {}
        self._groups, self._links = groups, links
        self._layers: dict[tuple[int, int], Layers | None] = {}
        self._spread: dict[tuple[int, int], tuple[Hop, ...]] = {}
        self._hop: dict[Hop, Hop] = {}  # equal hops are one object
        for index in range(len(links)) if indexes is None else indexes:
            src, dst = links[index].src, links[index].dst
            for vertex in (src, dst):
                if vertex not in self.out:
                    self.out[vertex], self.into[vertex] = {}, []
            if dst not in self.out[src]:  # of parallel links the first is used
                self.out[src][dst] = index
                self.into[dst].append(src)

    def find(self, src: int, dst: int, routing: Routing, flow: tuple[int, int] | None = None) -> Way | None:
        """The way from `src` to `dst`; None if there is none. The ends of `flow` replace these in hashes."""
        if src == dst:
            return ()
        out = self.out
        if src not in out or dst not in out:
            return None
        if dst in out[src]:
            return (_whole(out[src][dst]),)
        # Vertices on one switch share the ways of this switch.
        start = next(iter(out[src])) if len(out[src]) == 1 else src
        end = self.into[dst][0] if len(self.into[dst]) == 1 else dst
        hops = self._hops(start, end, routing, flow or (src, dst))
        if hops is None:
            return None
        first: Way = (_whole(out[src][start]),) if start != src else ()
        last: Way = (_whole(out[end][dst]),) if end != dst else ()
        return first + hops + last

    def _hops(self, start: int, end: int, routing: Routing, flow: tuple[int, int]) -> tuple[Hop, ...] | None:
        """The hops between switches; with a spreading routing, all flows between the two share them."""
        found = self._spread.get((start, end)) if routing.spreads else None
        if found is not None:
            return found
        layers = self._between(start, end)
        if layers is None:
            return None
        hops = routing.hops(self.out, layers, flow, lambda index: self._links[index].bytes_per_s)
        if routing.spreads:
            hops = self._spread[start, end] = tuple([self._hop.setdefault(hop, hop) for hop in hops])
        return hops

    def hops_from(self, gpu: int) -> dict[int, int]:
        """Links on the way from a vertex to every one that it reaches."""
        if gpu not in self.out:
            return {gpu: 0}
        groups = self._groups
        if not groups:
            return distances(self.out, gpu)
        home = groups[gpu]  # a route leaves it once, for the group of its destination
        return distances(self.out, gpu, lambda here, there: groups[here] in (home, groups[there]))

    def _between(self, start: int, end: int) -> Layers | None:
        key = start, end
        if key not in self._layers:
            allowed = None
            if groups := self._groups:
                ends = groups[start], groups[end]
                allowed = lambda vertex: groups[vertex] in ends  # noqa: E731 (one expression, used here only)
            if len(self._layers) >= _CACHED_LAYERS:
                self._layers.clear()
            self._layers[key] = shortest_layers(self.out, self.into, start, end, allowed)
        return self._layers[key]


class NodeRoutes:
    """Ways in a cluster of nodes: inside a node, or out over a NIC, through the fabric, and in over another NIC.

    GPUs forward inside their node only, and no traffic between GPUs of one node leaves it.

    Args:
        links: The network's links.
        node_size: GPUs per node.
        nodes: Which links are where, and each GPU's exit.
        groups: As for `FlatRoutes`.
    """

    def __init__(self, links: Sequence[LinkSpec], node_size: int, nodes: NodeRouting, groups: Sequence[int]) -> None:
        self._inside = FlatRoutes(links, range(nodes.inside))
        self._fabric = FlatRoutes(links, range(nodes.fabric, len(links)), groups)
        self._node_size, self._exits, self._pxn = node_size, nodes.exits, nodes.pxn

    def find(self, src: int, dst: int, routing: Routing) -> Way | None:
        """The way from GPU `src` to GPU `dst`; None if there is none."""
        if src // self._node_size == dst // self._node_size:
            return self._inside.find(src, dst, _INSIDE)
        exit_, entry = self._exit(src, dst % self._node_size), self._exits[dst]
        parts = (
            self._inside.find(src, exit_.door, _INSIDE),
            _in_a_row(exit_.out),
            self._fabric.find(exit_.port, entry.port, routing, (src, dst)),
            _in_a_row(entry.into),
            self._inside.find(entry.door, dst, _INSIDE),
        )
        route: Way = ()
        for part in parts:
            if part is None:
                return None
            route += part
        return route

    def hops_from(self, gpu: int) -> dict[int, int]:
        """Links on the way from a GPU to every GPU that it reaches."""
        size = self._node_size
        first = gpu // size * size
        inside = self._inside.hops_from(gpu)
        found = {other: inside[other] for other in range(first, first + size) if other in inside}
        exits = [self._exit(gpu, place) for place in range(size)]
        across = {port: self._fabric.hops_from(port) for port in dict.fromkeys(exit_.port for exit_ in exits)}
        for other, entry in enumerate(self._exits):
            exit_ = exits[other % size]
            to_port, last = across[exit_.port].get(entry.port), self._inside.find(entry.door, other, _INSIDE)
            if other not in range(first, first + size) and to_port is not None and last is not None:
                found[other] = inside[exit_.door] + len(exit_.out) + to_port + len(entry.into) + len(last)
        return found

    def _exit(self, src: int, place: int) -> Exit:
        """Where a GPU's traffic for GPUs at `place` in their nodes leaves its node."""
        own = self._exits[src]
        if not self._pxn:
            return own
        peer = self._exits[src - src % self._node_size + place]
        return own if peer.port == own.port else peer
