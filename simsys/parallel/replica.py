"""A serving replica as its ranks see it: one share of the model for each pipeline stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind
from simsys.parallel.kernel_counts import DENSE_LAUNCHES, launches_of
from simsys.parallel.passes import ForwardPass, RepeatedBlock, forward_pass
from simsys.parallel.segments import Exchange, Experts, Segment
from simsys.parallel.stages import partition


class ExpertProducts(NamedTuple):
    """By which kernels experts compute.

    Args:
        effort: Time to compute, relative to the device's curve.
        by_deep_gemm: Whether DeepGEMM multiplies.
        padded_rows: Rows of which the kernels compute multiples for each expert, in steps of any size.
        alike: Sequences of a pass with the same tokens, which use the same experts.
    """

    effort: float = 1.0
    by_deep_gemm: bool = False
    padded_rows: int = 1
    alike: int = 1

    def of(self, operator: Operator) -> Operator:
        """A product of experts by these kernels.

        The host does not know how many tokens each expert has, so it launches as many rows as these tokens and one
        incomplete multiple for each expert could need (``compute_aligned_M`` of vLLM).
        """
        rows = (operator.experts_held or operator.experts) * (self.padded_rows - 1)
        return replace(
            operator,
            effort=operator.effort * self.effort,
            by_deep_gemm=self.by_deep_gemm,
            padding_tokens=rows / operator.rows_per_token,
            alike=float(self.alike),
        )


PLAIN_PRODUCTS = ExpertProducts()
"""The kernels of the device's curve."""


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
    decoded_by: str = "",
    launch_factors: Mapping[str, float] | None = None,
    products: ExpertProducts = PLAIN_PRODUCTS,
) -> list[ForwardPass]:
    """One rank's share of each stage of a replica.

    Args:
        model: The model.
        tensor: Ranks that share each layer.
        stages: Pipeline stages.
        stage_layers: Layers of each stage; by default equal numbers.
        sequence_parallel: Divide replicated operators of tensor parallelism by tokens.
        experts: Division of routed experts; by default like other operators.
        gather: True if each rank of a stage receives a part of the hidden states and gathers the rest (Narayanan et
            al. 2021, §4.1), as in vLLM; else each receives all of them.
        length_skew: Time of decode attention over sequences of unequal length, relative to equal lengths.
        decoded_by: Kernels for decode attention that have a curve of their own (`DecodeKernels`); empty for others.
        launch_factors: Time to launch the additional kernels of some operators, relative to their number.
        products: By which kernels experts compute.

    Raises:
        UsageError: If the model cannot be divided like this.
    """
    whole = with_length_skew(forward_pass(model, tensor, sequence_parallel, experts=experts), length_skew)
    if decoded_by:
        heads = model.num_attention_heads / tensor
        whole = _with_decode_attention(whole, decoded_by=decoded_by, rows_per_token=heads)
    whole = with_launch_factors(with_wider_gaps(whole), launch_factors or {})
    if products != PLAIN_PRODUCTS:
        whole = _with_operators(whole, lambda each: products.of(each) if each.grouped else each)
    if stages == 1:
        return [whole]
    pieces = [piece for (piece,) in partition(whole, stages, layers=stage_layers)]
    gathers = gather and tensor > 1 and not sequence_parallel
    return [_gathering(piece) if gathers and index else piece for index, piece in enumerate(pieces)]


def with_length_skew(plan: ForwardPass, skew: float) -> ForwardPass:
    """A copy with decode attention that is `skew` times slower over several sequences."""
    if skew == 1.0:
        return plan
    return _with_decode_attention(plan, length_skew=skew)


def _with_decode_attention(plan: ForwardPass, **changes: Any) -> ForwardPass:
    """A copy with changed operators of decode attention."""
    attention = OperatorKind.DECODE_ATTENTION
    return _with_operators(
        plan, lambda operator: replace(operator, **changes) if operator.kind is attention else operator
    )


def _with_operators(plan: ForwardPass, changed: Callable[[Operator], Operator]) -> ForwardPass:
    """A copy with changed operators."""
    stretches = [
        replace(
            stretch,
            segments=tuple(
                replace(segment, operators=tuple(map(changed, segment.operators))) for segment in stretch.segments
            ),
        )
        for stretch in plan.stretches
    ]
    return replace(plan, stretches=tuple(stretches))


def with_launch_factors(plan: ForwardPass, factors: Mapping[str, float]) -> ForwardPass:
    """A copy in which additional kernels of some operators count as others; see `LaunchFactors`."""
    if all(factor == 1.0 for factor in factors.values()):
        return plan

    def launched(segment: Segment) -> Segment:
        return replace(segment, launches=launches_of(segment.operators, factors))

    stretches = [replace(each, segments=tuple(map(launched, each.segments))) for each in plan.stretches]
    return replace(plan, stretches=tuple(stretches))


def with_wider_gaps(plan: ForwardPass) -> ForwardPass:
    """A copy with longer gaps in layers with more kernels than a dense layer.

    Kernels of a replayed graph also wait for the previous one, so routing, latent attention etc. have a gap per
    kernel.
    """

    def wider(stretch: RepeatedBlock) -> RepeatedBlock:
        kernels = sum(operator.kind is not OperatorKind.DECODE_ATTENTION for operator in stretch.operators)
        more = max(1.0, kernels / DENSE_LAUNCHES)
        return replace(stretch, segments=tuple(replace(each, layers=more * each.layers) for each in stretch.segments))

    return replace(plan, stretches=tuple(map(wider, plan.stretches)))


def _gathering(piece: ForwardPass) -> ForwardPass:
    """A copy of the stage with the all-gather of its divided inputs."""
    exchange = Exchange(CollectiveKind.ALL_GATHER, piece.input_elements_per_token)
    received = RepeatedBlock(
        "received", (Segment((), exchange),), output_elements_per_token=piece.input_elements_per_token
    )
    return replace(piece, stretches=(received, *piece.stretches))
