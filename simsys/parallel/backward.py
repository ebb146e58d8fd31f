"""The backward pass of a block: its segments in reverse order, with the mirrored collectives of the forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.collectives.base import CollectiveKind
from simsys.model.batch import Batch
from simsys.model.operators import OperatorKind, Split
from simsys.model.work import Precision, Work, backward_work
from simsys.parallel.activations import Recompute, modules_of
from simsys.parallel.elementwise import work_of
from simsys.parallel.passes import RepeatedBlock
from simsys.parallel.plan import Part, StepSettings
from simsys.parallel.recomputed_modules import runs_again
from simsys.parallel.segments import Exchange, Segment

FIVE_FOR_FOUR = 1.25


def gradients_of(forward: Work, flop_ratio: float, layers_ratio: float) -> Work:
    """The backward work of a forward one, with its share of the host's overhead."""
    return replace(backward_work(forward, flop_ratio), layers=forward.layers * layers_ratio)


def again_in_attention(gradients: Work) -> Work:
    """The backward work of fused attention, which computes the scores again: five products for the forward's two.

    Dao et al. 2022 ("FlashAttention"), §3.1 and appendix B.4. It is no recomputation that is asked for, so its FLOP do
    not count.
    """
    kernels = [
        kernel._replace(effort=kernel.effort * FIVE_FOR_FOUR) if kernel.kind is OperatorKind.ATTENTION else kernel
        for kernel in gradients.kernels
    ]
    return replace(gradients, kernels=tuple(kernels))


def part_of(
    work: Work,
    exchange: Exchange | None,
    batch: Batch,
    precision: Precision,
    *,
    factor: float = 1.0,
    overlapped: bool = False,
) -> Part:
    """A computation and the optional exchange after (or `overlapped`) it, with `factor` times its usual size."""
    if exchange is None:
        return Part(work)
    tokens = batch.logits if exchange.per_logit else batch.tokens
    nbytes = factor * tokens * exchange.elements_per_token * precision.activation_bytes
    return Part(work, exchange.kind, nbytes, exchange.over, overlapped)


def recomputed(stretch: RepeatedBlock, forward: Sequence[Part], batch: Batch, settings: StepSettings) -> list[Part]:
    """Recomputation before the backward pass of a block: all of it, or some modules, with their exchanges.

    An exchange belongs to the operator before it. The host launches all kernels again but attention, whose launch is
    neglected.
    """
    if settings.recompute is Recompute.FULL and stretch.checkpointed:
        return list(forward)
    if settings.recompute is Recompute.HALF and stretch.checkpointed:
        return [Part(_half(part.work)) for part in forward if part.computes]
    modules = modules_of(settings.recompute)
    parts = []
    for segment in stretch.segments:
        again = [operator for operator in segment.operators if runs_again(operator, modules)]
        if again:
            launched = sum(operator.kind is not OperatorKind.ATTENTION for operator in again)
            work = work_of(again, batch, settings, layers=segment.layers * launched / len(segment.operators))
            exchange = segment.exchange if again[-1] is segment.operators[-1] else None
            overlapped = segment.overlapped and exchange is not None
            parts.append(part_of(work, exchange, batch, settings.precision, overlapped=overlapped))
    return parts


def _half(work: Work) -> Work:
    kernels = [kernel._replace(flop=kernel.flop / 2.0, nbytes=kernel.nbytes / 2.0) for kernel in work.kernels]
    return replace(work, kernels=tuple(kernels), layers=work.layers / 2.0)


def backward_parts(
    stretch: RepeatedBlock, gradients: Sequence[Work], batch: Batch, precision: Precision
) -> list[Part]:
    """The backward pass of a block's segments, last first, with the exchanges before and after each."""
    parts: list[Part] = []
    previous: Segment | None = None
    sums = any(s.exchange is not None and s.exchange.kind is CollectiveKind.ALL_REDUCE for s in stretch.segments)
    for segment, work in zip(stretch.segments, gradients, strict=True):
        if segment.overlapped:
            parts = [*_backward_overlapped(segment, work, batch, precision, previous), *parts]
        else:
            before, after = _exchanges(segment, previous.exchange if previous and _gathers(previous) else None)
            alone = [part_of(Work(), exchange, batch, precision) for exchange in before]
            second = [part_of(Work(), exchange, batch, precision) for exchange in _second_inputs(segment) if sums]
            parts = [*alone, part_of(work, after, batch, precision), *second, *parts]
        previous = segment
    return [part for part in parts if part.computes or part.kind is not None]


def _backward_overlapped(
    segment: Segment, work: Work, batch: Batch, precision: Precision, previous: Segment | None
) -> list[Part]:
    """The backward pass of a part of a ring; the gradients of keys and values go one step further, to their owner."""
    exchange = segment.exchange
    parts = [part_of(work, exchange, batch, precision, factor=segment.backward_factor, overlapped=True)]
    begins = previous is None or not previous.overlapped
    if begins and exchange is not None and exchange.over == "context":
        parts.append(part_of(Work(), exchange, batch, precision))
    return parts


def joined(parts: Sequence[Part]) -> list[Part]:
    """Merge an exchange without computation into the previous computation, if that has no exchange."""
    joined: list[Part] = []
    for part in parts:
        if part.computes or not joined or joined[-1].kind is not None:
            joined.append(part)
        else:
            joined[-1] = replace(part, work=joined[-1].work)
    return joined


def _exchanges(segment: Segment, gather: Exchange | None) -> tuple[list[Exchange], Exchange | None]:
    """The exchanges before and after the backward pass of a segment.

    Tensor parallelism (Shoeybi et al. 2019, §3): partial sums are reduced in both passes. The logits stay divided,
    since the loss exchanges only a few numbers per token, which are neglected. The gradient of the head's input is a
    sum over the ranks. The gradients of an embedding stay with its rows. Sequence parallelism (Korthikanti et al.
    2022, §4.2.2): an all-gather becomes a reduce-scatter and vice versa, and the input of split operators is gathered
    again for the gradients of their weights. An all-to-all is reversed by another one.

    Args:
        segment: The operators, and the exchange after them in the forward pass.
        gather: The all-gather of the segment's input, if there was one.
    """
    exchange = segment.exchange
    before: list[Exchange] = []
    if exchange is not None and exchange.kind is CollectiveKind.REDUCE_SCATTER:
        before = [replace(exchange, kind=CollectiveKind.ALL_GATHER)]
    elif exchange is not None and exchange.kind is CollectiveKind.ALL_TO_ALL:
        before = [exchange]
    if gather is not None:
        return [*before, gather], replace(gather, kind=CollectiveKind.REDUCE_SCATTER)
    if keeps_logits(segment):
        return before, Exchange(CollectiveKind.ALL_REDUCE, float(segment.operators[-1].inner), per_logit=True)
    summed = exchange is not None and exchange.kind is CollectiveKind.ALL_REDUCE and not segment.operators[-1].lookup
    return before, exchange if summed else None


def _second_inputs(segment: Segment) -> list[Exchange]:
    """The sum of a second gradient: cross-attention has two inputs, the decoder's tokens and the encoder's."""
    products = [o for o in segment.operators if o.split is Split.COLUMN and o.kind is OperatorKind.GEMM]
    if not any(product.per_logit for product in products):
        return []
    return [Exchange(CollectiveKind.ALL_REDUCE, float(o.inner)) for o in products if not o.per_logit]


def keeps_logits(segment: Segment) -> bool:
    """Whether what follows is the gathering of logits, for which only inference has a use."""
    return segment.exchange is not None and any(o.is_head for o in segment.operators)


def _gathers(segment: Segment) -> bool:
    """Whether what follows is the gathering of hidden states for the next segment."""
    exchange = segment.exchange
    return exchange is not None and exchange.kind is CollectiveKind.ALL_GATHER and not keeps_logits(segment)
