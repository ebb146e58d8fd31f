"""Hierarchical collectives for groups that span nodes: one algorithm inside the nodes, another across them.

Ranks with the same place in their nodes form a group across the nodes, so all NICs of a node carry traffic. A flat
ring would enter and leave a node over one NIC. All-reduce of S bytes over m nodes of g ranks, with rings inside and
across::

    (g-1)(S/(g·B1) + L1)  +  2(m-1)(S/(g·m·B2) + L2)  +  (g-1)(S/(g·B1) + L1)

reduce-scatter inside, all-reduce across, all-gather inside, one after the other (Cho et al. 2019, "BlueConnect",
the two-level case). Where the inner algorithm cannot scatter, such as a tree, the nodes reduce to their first ranks,
which all-reduce and broadcast. Group indexes are node by node: index n·g + i is place i of node n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simsys.collectives.base import (
    Algorithm,
    CollectiveKind,
    Path,
    Phase,
    Span,
    one_per_phase,
    register_algorithm,
)
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
    """One algorithm inside nodes and another across them; rings, unless written as ``inside/across``.

    Args:
        per_node: Ranks of the group in each node; with 1, only the algorithm across remains, with all ranks only the
            one inside.
        inside: Algorithm inside the nodes.
        across: Algorithm across them.
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
        """Names of the algorithms inside and across."""
        return f"{self.inside.label}/{self.across.label}"

    def for_nodes(self, per_node: int) -> Hierarchical:
        """This algorithm for a group with `per_node` ranks in each node."""
        return Hierarchical(per_node, self.inside, self.across)

    def variants(self) -> tuple[Hierarchical, ...]:
        """All pairs of algorithms to compare inside and across."""
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
        return tuple(
            replace(phase, transfers=stage.spread(phase.transfers), fraction=phase.fraction * stage.share)
            for stage in self._stages(kind, size)
            for phase in stage.algorithm.phases(stage.kind, stage.size)
        )

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """The sum of the stages."""
        stages = self._stages(kind, size)
        counts = [len(stage.algorithm.phases(stage.kind, stage.size)) for stage in stages]
        left = list(one_per_phase(paths, sum(counts)))
        seconds = 0.0
        for stage, count in zip(stages, counts, strict=True):
            seconds += stage.algorithm.seconds(stage.kind, stage.size, nbytes * stage.share, left[:count])
            del left[:count]
        return seconds

    def _stages(self, kind: CollectiveKind, size: int) -> list[_Stage]:
        """The parts inside the nodes and across them, in order."""
        each, nodes = self.per_node, self._nodes(size)
        scatters = self.inside.kinds >= SCATTERING

        def inside(kind: CollectiveKind) -> _Stage:
            return _Stage(self.inside, kind, each, nodes, 1, each, 1.0)

        rooted = kind in ROOTED or (kind == CollectiveKind.ALL_REDUCE and not scatters)
        share = 1.0 if rooted or kind == CollectiveKind.ALL_TO_ALL else 1.0 / each
        across = _Stage(self.across, kind, nodes, 1 if rooted else each, each, 1, share)
        if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST):
            return [across, inside(kind)]
        if kind != CollectiveKind.ALL_REDUCE:
            return [inside(kind), across]
        if scatters:
            return [inside(CollectiveKind.REDUCE_SCATTER), across, inside(CollectiveKind.ALL_GATHER)]
        return [inside(CollectiveKind.REDUCE), across, inside(CollectiveKind.BROADCAST)]

    def _nodes(self, size: int) -> int:
        if size % self.per_node:
            raise UsageError(f"a group of {size} ranks does not fill nodes of {self.per_node}")
        return size // self.per_node


@dataclass(frozen=True, slots=True)
class _Stage:
    """A concurrent collective of several groups of equal size.

    Args:
        algorithm: The algorithm.
        kind: The kind of collective.
        size: Ranks in each group.
        groups: Number of groups.
        stride: Distance between the ranks of a group.
        offset: Distance between the first ranks of the groups.
        share: Share of the full buffer of each group.
    """

    algorithm: Algorithm
    kind: CollectiveKind
    size: int
    groups: int
    stride: int
    offset: int
    share: float

    def spread(self, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """The transfers of one group, repeated for all groups."""
        stride, firsts = self.stride, range(0, self.groups * self.offset, self.offset)
        return tuple((first + src * stride, first + dst * stride) for src, dst in pairs for first in firsts)
