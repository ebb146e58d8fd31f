"""A serving replica as its ranks see it: one share of the model for each pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.collectives.base import CollectiveKind
from simsys.model.model import Model
from simsys.model.operators import OperatorKind
from simsys.parallel.passes import ForwardPass, RepeatedBlock, forward_pass
from simsys.parallel.segments import DENSE_LAUNCHES, Exchange, Experts, Segment
from simsys.parallel.stages import partition


def replica_stages(
    model: Model,
    *,
    tensor: int = 1,
    stages: int = 1,
    stage_layers: Sequence[int] | None = None,
    sequence_parallel: bool = False,
    experts: Experts | None = None,
    gather: bool = True,
    length_skew: float = 1.0,
) -> list[ForwardPass]:
    """One rank's share of each stage of a replica.

    Args:
        model: The model.
        tensor: Ranks that share each layer.
        stages: Pipeline stages.
        stage_layers: Layers of each; by default equally many.
        sequence_parallel: Divide by tokens what tensor parallelism leaves whole.
        experts: How routed experts are divided; like all else if left out.
        gather: Whether the ranks of a stage each receive a part of the hidden states and gather the whole (Narayanan
            et al. 2021, §4.1), as vLLM does; else each receives all of them.
        length_skew: What decode attention takes over sequences of unequal length, over equal ones.

    Raises:
        UsageError: If the model cannot be divided like this.
    """
    whole = with_length_skew(forward_pass(model, tensor, sequence_parallel, experts=experts), length_skew)
    whole = with_wider_gaps(whole)
    if stages == 1:
        return [whole]
    pieces = [piece for (piece,) in partition(whole, stages, layers=stage_layers)]
    gathers = gather and tensor > 1 and not sequence_parallel
    return [_gathering(piece) if gathers and index else piece for index, piece in enumerate(pieces)]


def with_length_skew(plan: ForwardPass, skew: float) -> ForwardPass:
    """The same with decode attention that takes `skew` times as long over several sequences."""
    if skew == 1.0:
        return plan

    def skewed(segment: Segment) -> Segment:
        return replace(
            segment,
            operators=tuple(
                replace(operator, length_skew=skew) if operator.kind is OperatorKind.DECODE_ATTENTION else operator
                for operator in segment.operators
            ),
        )

    stretches = [replace(each, segments=tuple(map(skewed, each.segments))) for each in plan.stretches]
    return replace(plan, stretches=tuple(stretches))


def with_wider_gaps(plan: ForwardPass) -> ForwardPass:
    """The same with more time between the kernels of layers that have more of them than a dense layer.

    Where a graph is replayed too, each kernel waits for the one before, so that routing, latent attention and the like
    cost what their kernels cost and a gap for each.
    """

    def wider(stretch: RepeatedBlock) -> RepeatedBlock:
        kernels = sum(operator.kind is not OperatorKind.DECODE_ATTENTION for operator in stretch.operators)
        more = max(1.0, kernels / DENSE_LAUNCHES)
        return replace(stretch, segments=tuple(replace(each, layers=more * each.layers) for each in stretch.segments))

    return replace(plan, stretches=tuple(map(wider, plan.stretches)))


def _gathering(piece: ForwardPass) -> ForwardPass:
    """The same stage with the all-gather of what it has received in parts."""
    exchange = Exchange(CollectiveKind.ALL_GATHER, piece.input_elements_per_token)
    received = RepeatedBlock(
        "received", (Segment((), exchange),), output_elements_per_token=piece.input_elements_per_token
    )
    return replace(piece, stretches=(received, *piece.stretches))
