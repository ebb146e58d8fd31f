"""A network as seen by its cuts: nodes, a minimum of switches, and the bandwidth between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from simsys.platform.topology import Topology


class CutGraph:
    """Nodes 0 … `num_nodes` - 1, further vertices that may be on either side of a cut, and directed capacities.

    Args:
        num_nodes: Nodes, of which each half of a cut has the same number.
        links: Ends and bandwidth in bytes/s of each link; parallel ones add up.
    """

    def __init__(self, num_nodes: int, links: Iterable[tuple[int, int, float]]) -> None:
        self.num_nodes = num_nodes
        self.out: dict[int, dict[int, float]] = {node: {} for node in range(num_nodes)}
        self.into: dict[int, dict[int, float]] = {node: {} for node in range(num_nodes)}
        for src, dst, bytes_per_s in links:
            self._add(src, dst, bytes_per_s)

    @classmethod
    def of(cls, topology: Topology) -> CutGraph:
        """The nodes of a topology (of one node, its GPUs) and the switches between them, reduced.

        The inside of a node is on one side of every cut, and so are switches that lead to one place only.
        """
        size = topology.node_size if topology.num_gpus > topology.node_size else 1
        num_nodes = topology.num_gpus // size

        def vertex(number: int) -> int:
            return number // size if number < topology.num_gpus else number - topology.num_gpus + num_nodes

        ends = ((vertex(link.src), vertex(link.dst), link.bytes_per_s) for link in topology.links)
        graph = cls(num_nodes, (link for link in ends if link[0] != link[1]))
        while graph._join_in_series() or graph._join_twins():
            pass
        return graph

    @property
    def free(self) -> list[int]:
        """The vertices that are not nodes."""
        return [vertex for vertex in self.out if vertex >= self.num_nodes]

    @property
    def num_links(self) -> int:
        """The remaining directed links."""
        return sum(map(len, self.out.values()))

    @property
    def symmetric(self) -> bool:
        """True if every link is equally fast in both directions."""
        return all(self.out[dst].get(src) == bytes_per_s for src, dst, bytes_per_s in self.links())

    @property
    def is_tree(self) -> bool:
        """True if there is one path only between any two vertices."""
        pairs = {(min(src, dst), max(src, dst)) for src, dst, _ in self.links()}
        return len(pairs) == len(self.out) - 1

    def links(self) -> Iterator[tuple[int, int, float]]:
        """Ends and bandwidth in bytes/s of each link."""
        for src, ends in self.out.items():
            for dst, bytes_per_s in ends.items():
                yield src, dst, bytes_per_s

    def neighbours(self, vertex: int) -> set[int]:
        """The vertices that a vertex is linked with, in either direction."""
        return {*self.out[vertex], *self.into[vertex]}

    def _add(self, src: int, dst: int, bytes_per_s: float) -> None:
        for vertex in (src, dst):
            self.out.setdefault(vertex, {})
            self.into.setdefault(vertex, {})
        self.out[src][dst] = self.into[dst][src] = self.out[src].get(dst, 0.0) + bytes_per_s

    def _remove(self, vertex: int) -> None:
        for dst in self.out.pop(vertex):
            del self.into[dst][vertex]
        for src in self.into.pop(vertex):
            del self.out[src][vertex]

    def _join_in_series(self) -> bool:
        """Replace switches that join two vertices by links between these, and leave out those at an end."""
        waiting, found = self.free, False
        while waiting:
            vertex = waiting.pop()
            if vertex not in self.out or len(ends := sorted(self.neighbours(vertex))) > 2:
                continue
            found = True
            joined = [
                (src, dst, min(self.into[vertex].get(src, 0.0), self.out[vertex].get(dst, 0.0)))
                for src in ends
                for dst in ends
                if src != dst
            ]
            self._remove(vertex)
            for src, dst, bytes_per_s in joined:
                if bytes_per_s:
                    self._add(src, dst, bytes_per_s)
            waiting += [end for end in ends if end >= self.num_nodes]
        return found

    def _join_twins(self) -> bool:
        """Merge switches with equal links to the same vertices: some best cut has them on one side."""
        alike = defaultdict[tuple[object, ...], list[int]](list)
        for vertex in self.free:
            links = tuple(tuple(sorted(ends.items())) for ends in (self.out[vertex], self.into[vertex]))
            alike[links].append(vertex)
        twins = [group for group in alike.values() if len(group) > 1]
        for group in twins:
            for other in group[1:]:
                self._remove(other)
            first = group[0]
            for src, dst, bytes_per_s in [
                *((first, dst, rate) for dst, rate in self.out[first].items()),
                *((src, first, rate) for src, rate in self.into[first].items()),
            ]:
                self._add(src, dst, bytes_per_s * (len(group) - 1))
        return bool(twins)
