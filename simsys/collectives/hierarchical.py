"""Hierarchical collectives for groups that span nodes: one algorithm inside the nodes, another across them.

Ranks with the same place in their nodes form one group across the nodes each, so that all NICs of a node carry
traffic, where a flat ring would enter and leave a node over one. All-reduce of S bytes over m nodes of g ranks, with
rings inside and across::

    (g-1)(S/(g·B1) + L1)  +  2(m-1)(S/(g·m·B2) + L2)  +  (g-1)(S/(g·B1) + L1)

reduce-scatter inside, all-reduce across, all-gather inside, one after the other (Cho et al. 2019, "BlueConnect",
the two-level case). Where the inner algorithm cannot scatter, such as a tree, the nodes reduce to their first ranks,
which all-reduce and broadcast. Group indexes are node by node: index n·g + i is place i of node n.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, Span, register_algorithm
from simsys.collectives.ring import Ring
from simsys.errors import UsageError

SCATTERING = frozenset({CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER})
ROOTED = frozenset({CollectiveKind.REDUCE, CollectiveKind.BROADCAST})
BY_STAGES = (
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.BROADCAST,
    CollectiveKind.REDUCE,
    CollectiveKind.ALL_TO_ALL,
)
"""Kinds that are the same kind inside and across."""


@register_algorithm
class Hierarchical(Algorithm):
    """One algorithm inside nodes and another across them; rings, unless it is written as ``inside/across``.

    Args:
        per_node: Ranks of the group in each node; 1 leaves only what is across, all of them only what is inside.
        inside: Inside the nodes.
        across: Across them.
    """

    name = "hierarchical"

    def __init__(self, per_node: int = 1, inside: Algorithm | None = None, across: Algorithm | None = None) -> None:
        self.per_node = per_node
        self.inside = inside if inside is not None else Ring()
        self.across = across if across is not None else Ring()
        self.pattern = self.across.pattern
        kinds = {kind for kind in BY_STAGES if kind in self.inside.kinds & self.across.kinds}
        inner = self.inside.kinds >= SCATTERING or self.inside.kinds >= ROOTED
        if inner and CollectiveKind.ALL_REDUCE in self.across.kinds:
            kinds |= {CollectiveKind.ALL_REDUCE, CollectiveKind.BARRIER}
        if not kinds:
            raise UsageError(f"{self.inside.name} inside and {self.across.name} across have no collective in common")
        self.kinds = frozenset(kinds)

    @property
    def label(self) -> str:
        """Inside and across."""
        return f"{self.inside.label}/{self.across.label}"

    def for_nodes(self, per_node: int) -> Hierarchical:
        """The same algorithm for a group with `per_node` ranks in each node."""
        return Hierarchical(per_node, self.inside, self.across)

    def variants(self) -> tuple[Hierarchical, ...]:
        """All pairs of what is to be compared inside and across."""
        return tuple(
            Hierarchical(self.per_node, inside, across)
            for inside in self.inside.variants()
            for across in self.across.variants()
        )

    def suits(self, span: Span) -> bool:
        """Whether it fits a node and the nodes."""
        return self.inside.suits(Span(1)) and self.across.suits(Span(span.nodes))

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """Inside, across, or both, one after the other."""
        if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST):
            return self._across(kind, size) + self._inside(kind, size)
        if kind != CollectiveKind.ALL_REDUCE:
            return self._inside(kind, size) + self._across(kind, size)
        first, last = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
        if not self.inside.kinds >= SCATTERING:
            first, last = CollectiveKind.REDUCE, CollectiveKind.BROADCAST
        return self._inside(first, size) + self._across(kind, size) + self._inside(last, size)

    def _inside(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """In all nodes at once."""
        each, nodes = self.per_node, self._nodes(size)
        return tuple(
            replace(
                phase,
                transfers=tuple(
                    (node * each + src, node * each + dst) for node in range(nodes) for src, dst in phase.transfers
                ),
            )
            for phase in self.inside.phases(kind, each)
        )

    def _across(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """Among the ranks with the same place in every node, all places at once; or among the first ones only."""
        each = self.per_node
        rooted = kind in ROOTED or (kind == CollectiveKind.ALL_REDUCE and not self.inside.kinds >= SCATTERING)
        places = range(1 if rooted else each)
        share = 1.0 if rooted or kind == CollectiveKind.ALL_TO_ALL else 1.0 / each
        return tuple(
            replace(
                phase,
                transfers=tuple(
                    (src * each + place, dst * each + place) for src, dst in phase.transfers for place in places
                ),
                fraction=phase.fraction * share,
            )
            for phase in self.across.phases(kind, self._nodes(size))
        )

    def _nodes(self, size: int) -> int:
        if size % self.per_node:
            raise UsageError(f"a group of {size} ranks does not fill nodes of {self.per_node}")
        return size // self.per_node
