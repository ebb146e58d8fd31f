"""A pass of data-parallel ranks that share their experts, by who waits for whom.

Each rank passes its own requests through attention and dense layers (`own`). Tokens then go to their experts and come
back (`exchange`), and all GPUs compute the experts' work for the tokens of all ranks (`experts`). So no rank can be
ahead of another one by more than a layer. A pass lasts as long as the own part of the rank with most work, the
exchange and the experts' part together.

Where tokens are drafted, a step is several passes: those of the model that drafts, and the one that verifies. All
ranks go through each of them together; the experts of the layers that draft are divided as those of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simsys.errors import InternalError
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass, RepeatedBlock
from simsys.parallel.segments import Segment


@dataclass(frozen=True, slots=True, eq=False)
class LockStep:
    """Data-parallel ranks of a serving replica that share their experts.

    Args:
        teams: The GPUs of each data-parallel rank.
        everyone: The GPUs of all of them.
        own: A GPU's share of what a data-parallel rank computes for its own requests.
        exchange: The collectives of `everyone`.
        experts: A GPU's share of the routed experts.
        sent: Whether tokens are sent, so that the rank with most of them decides, or gathered everywhere.
        load: Tokens of the busiest expert-parallel rank over the mean.
        shared: A GPU's share of the shared experts, if they are computed during the exchange.
        moved_bytes: Bytes of experts that a GPU receives when experts are placed anew.
        moved_after: Steps between two such placements; 0 for none.
        halves: Whether each batch is processed in two halves, of which one computes while the other one communicates.
        layers: Layers with experts.
        occupied: Share of a GPU that the exchange keeps from the computation beside it.
        draft: The same ranks with the parts of the model that drafts, if one does; parts that it lacks are empty.
    """

    teams: tuple[Group, ...]
    everyone: Group
    own: ForwardPass
    exchange: ForwardPass
    experts: ForwardPass
    sent: bool = False
    load: float = 1.0
    shared: ForwardPass | None = None
    moved_bytes: float = 0.0
    moved_after: int = 0
    halves: bool = False
    layers: int = 1
    occupied: float = 0.0
    draft: LockStep | None = None

    def with_draft(
        self, own: ForwardPass, exchange: ForwardPass, experts: ForwardPass, shared: ForwardPass | None
    ) -> LockStep:
        """A copy with a model that drafts, of these parts; its passes are not halved."""
        draft = replace(self, own=own, exchange=exchange, experts=experts, shared=shared, halves=False, moved_after=0)
        return replace(self, draft=draft)

    @property
    def overlaps(self) -> bool:
        """Whether there is computation during the exchange."""
        return self.halves or self.shared is not None

    def mean_tokens(self, tokens: float, idle: int) -> float:
        """Tokens of a data-parallel rank on average; a rank without requests passes one token."""
        return (tokens + idle) / len(self.teams)

    def exchanged_tokens(self, mean: float, most: float) -> float:
        """Tokens that size the exchange.

        Args:
            mean: Tokens of a data-parallel rank on average.
            most: Tokens of the data-parallel rank with most.
        """
        return max(mean, most / self.load) if self.sent else mean

    @property
    def alone(self) -> float:
        """Share of the work of two halves that is not overlapped: a half of a layer at the begin and at the end."""
        return 0.5 / self.layers


def parts(plan: ForwardPass) -> tuple[ForwardPass, ForwardPass, ForwardPass]:
    """Divide a GPU's share of a model into its own part, the exchanges, and the part of the routed experts.

    Raises:
        InternalError: If there are no experts that several data-parallel ranks share.
    """
    own, exchange, experts = pieces(plan)
    if not exchange.stretches:
        raise InternalError(f"{plan.name} has no experts to share")
    return own, exchange, experts


def pieces(plan: ForwardPass) -> tuple[ForwardPass, ForwardPass, ForwardPass]:
    """The same of any model; exchange and experts' part are empty if it has no experts that ranks share."""
    return _piece(plan, "own", _own), _piece(plan, "exchange", _exchanges), _piece(plan, "experts", _experts)


def shared_apart(own: ForwardPass) -> tuple[ForwardPass, ForwardPass | None]:
    """Divide the own part into all but the shared experts, and these; None if there are none."""
    shared = _piece(own, "shared", _shared)
    return (_piece(own, "own", _unshared), shared) if shared.stretches else (own, None)


def expert_layers(plan: ForwardPass) -> int:
    """Number of layers with exchanges."""
    return sum(each.repeat for each in plan.stretches if any(map(_sends, each.segments)))


def _piece(plan: ForwardPass, name: str, kept: Callable[[Segment], Segment | None]) -> ForwardPass:
    stretches: list[RepeatedBlock] = []
    for each in plan.stretches:
        segments = tuple(found for segment in each.segments if (found := kept(segment)) is not None)
        if segments:
            stretches.append(replace(each, segments=segments))
    return replace(plan, name=f"{plan.name} {name}", stretches=tuple(stretches))


def _sends(segment: Segment) -> bool:
    return segment.exchange is not None and segment.exchange.over == "expert"


def _routed(segment: Segment) -> bool:
    return any(operator.experts > 1 for operator in segment.operators)


def _own(segment: Segment) -> Segment | None:
    if _routed(segment):
        return None
    kept = replace(segment, exchange=None) if _sends(segment) else segment
    return kept if kept.operators or kept.exchange is not None else None


def _shared(segment: Segment) -> Segment | None:
    return _of_shared(segment, True)


def _unshared(segment: Segment) -> Segment | None:
    return _of_shared(segment, False)


def _of_shared(segment: Segment, wanted: bool) -> Segment | None:
    """The operators of a segment that belong to shared experts, or do not; the exchange goes with the last one."""
    mine = [operator.name.startswith("shared_") is wanted for operator in segment.operators]
    if all(mine):
        return segment if mine or not wanted else None
    share = sum(mine) / len(mine)
    if not share:
        return None
    return replace(
        segment,
        operators=tuple(each for each, own in zip(segment.operators, mine, strict=True) if own),
        exchange=segment.exchange if mine[-1] else None,
        layers=segment.layers * share,
        launches=segment.launches * share,
    )


def _exchanges(segment: Segment) -> Segment | None:
    return Segment((), segment.exchange) if _sends(segment) else None


def _experts(segment: Segment) -> Segment | None:
    return replace(segment, exchange=None) if _routed(segment) else None
