"""Hierarchical collectives for groups that span nodes: inside the nodes, and across them on every rail at once.

Ranks with the same place in their nodes form one ring across the nodes each, so that all NICs of a node carry
traffic, where a flat ring would enter and leave a node over one. All-reduce of S bytes over m nodes of g ranks::

    (g-1)(S/(g·B1) + L1)  +  2(m-1)(S/(g·m·B2) + L2)  +  (g-1)(S/(g·B1) + L1)

reduce-scatter inside, all-reduce across, all-gather inside, one after the other (Cho et al. 2019, "BlueConnect",
the two-level case). Group indexes are node by node: index n·g + i is place i of node n.
"""

from __future__ import annotations

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, register_algorithm
from simsys.errors import UsageError


@register_algorithm
class Hierarchical(Algorithm):
    """Rings inside nodes and rings across them.

    Args:
        per_node: Ranks of the group in each node; 1 makes it a flat ring.
    """

    name = "hierarchical"
    kinds = frozenset({CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER})

    def __init__(self, per_node: int = 1) -> None:
        self.per_node = per_node

    def for_nodes(self, per_node: int) -> Hierarchical:
        """The same algorithm for a group with `per_node` ranks in each node."""
        return Hierarchical(per_node)

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase for each stage: inside, across, inside."""
        inside, across = self._inside(size), self._across(size)
        if kind is CollectiveKind.REDUCE_SCATTER:
            return inside + across
        if kind is CollectiveKind.ALL_GATHER:
            return across + inside
        return inside + across + across + inside

    def _inside(self, size: int) -> tuple[Phase, ...]:
        """Rings of the ranks of each node."""
        each, nodes = self.per_node, self._nodes(size)
        if each == 1:
            return ()
        pairs = [(node * each + i, node * each + (i + 1) % each) for node in range(nodes) for i in range(each)]
        return (Phase(tuple(pairs), 1.0 / each, repeat=each - 1),)

    def _across(self, size: int) -> tuple[Phase, ...]:
        """Rings of the ranks with the same place in every node."""
        nodes = self._nodes(size)
        if nodes == 1:
            return ()
        pairs = [(rank, (rank + self.per_node) % size) for rank in range(size)]
        return (Phase(tuple(pairs), 1.0 / size, repeat=nodes - 1),)

    def _nodes(self, size: int) -> int:
        if size % self.per_node:
            raise UsageError(f"a group of {size} ranks does not fill nodes of {self.per_node}")
        return size // self.per_node
