"""Communication that overlaps computation: transforms of a block's segments.

*Ring attention* (Liu et al. 2023, §3): each rank of a context-parallel group has a part of every sequence. Its queries
attend to one part of the keys and values after another, while the next part arrives from its neighbour. The parts are
balanced under a causal mask, as by Brandon et al. 2023 ("Striped Attention") and Megatron-LM.

*Overlap of tensor parallelism* (Wang et al. 2023, "Overlap Communication with Dependent Computation via
Decomposition", §5): an all-gather and the product behind it, or a product and the reduce-scatter behind it, are cut
into one part per rank. The data go around a ring, each part overlapped with the product of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from simsys.collectives.base import CollectiveKind
from simsys.model.operators import Operator, OperatorKind, Pairs, Split
from simsys.parallel.segments import Exchange, Segment

OverlappedWith: TypeAlias = Literal["nothing", "computation", "shared_experts"]
"""What hides the all-to-alls of experts: computation of other micro-batches, or shared experts."""
TWICE = 2.0
"""The backward pass sends keys, values and their gradients; or gathers again and scatters gradients."""


def ring_attention(segments: Sequence[Segment], degree: int) -> list[Segment]:
    """Cut the attention of each segment into as many parts as its sequences have."""
    if degree == 1:
        return list(segments)
    cut: list[Segment] = []
    for segment in segments:
        pending: list[Operator] = []
        for operator in segment.operators:
            if operator.kind is OperatorKind.ATTENTION:
                part = divided(operator, degree)
                cut.append(Segment(tuple(pending)))
                cut += _around((part,), _passed_on(operator), degree, TWICE)
                pending = [part]
            else:
                pending.append(operator)
        cut.append(replace(segment, operators=tuple(pending)))
    return cut


def _passed_on(attention: Operator) -> Exchange:
    """The keys and values of one step of the ring; cross-attention has those of the encoder."""
    of_decoder = attention.pairs is Pairs.DECODER
    return Exchange(CollectiveKind.SEND_RECV, attention.kv_elements_per_token, per_logit=of_decoder, over="context")


def overlapped(segments: Sequence[Segment], degree: int) -> list[Segment]:
    """Cut the matrix products next to the all-gathers and reduce-scatters of sequence parallelism."""
    cut: list[Segment] = []
    gathered: Exchange | None = None
    for index, segment in enumerate(segments):
        operators, exchange = segment.operators, segment.exchange
        if gathered is not None:
            part = divided(operators[0], degree)
            cut += _around((part,), _step(gathered, degree), degree, TWICE)
            operators = (part, *operators[1:])
        following = segments[index + 1].operators if index + 1 < len(segments) else ()
        gathered = exchange if _can_follow(exchange, following) else None
        if gathered is not None:
            cut.append(Segment(operators))
        elif exchange is not None and _can_precede(exchange, operators):
            part = divided(operators[-1], degree)
            cut.append(Segment((*operators[:-1], part)))
            cut += _around((part,), _step(exchange, degree), degree, 1.0)
        else:
            cut.append(replace(segment, operators=operators))
    return cut


def overlapped_with_computation(segments: Sequence[Segment]) -> list[Segment]:
    """The segments with each all-to-all of experts beside the computation before it.

    A pipeline stage alternates forward and backward passes of different micro-batches, and while the tokens of one are
    sent, the other one computes (DeepSeek-AI 2024, arXiv 2412.19437, §3.2.1; Megatron Core:
    ``overlap_moe_expert_parallel_comm``). All-to-alls and computation of a layer are the same in both passes but for a
    factor, so an all-to-all is taken to be hidden by the computation of its own pass.
    """
    return [
        replace(segment, overlapped=True)
        if segment.operators and segment.exchange is not None and segment.exchange.kind is CollectiveKind.ALL_TO_ALL
        else segment
        for segment in segments
    ]


def overlapped_with_shared_experts(segments: Sequence[Segment]) -> list[Segment]:
    """The segments with shared experts beside the all-to-alls of routed ones.

    Their first product and activation run while tokens are sent, their last product while results return (Megatron
    Core: ``moe_shared_expert_overlap``, without tensor parallelism).
    """
    found: list[Segment] = []
    waiting: list[Operator] = []  # the last product, until results return
    for segment in segments:
        if segment.exchange is None or segment.exchange.kind is not CollectiveKind.ALL_TO_ALL:
            found.append(segment)
            continue
        shared = [operator for operator in segment.operators if operator.name.startswith("shared_")]
        rest = tuple(operator for operator in segment.operators if operator not in shared)
        hidden, waiting = (shared[:-1], shared[-1:]) if shared else (waiting, [])
        found += [Segment(rest), Segment(tuple(hidden), segment.exchange, overlapped=True)] if hidden else [segment]
    return found


def with_expert_overlap(segments: Sequence[Segment], overlapped_with: OverlappedWith) -> list[Segment]:
    """The segments with what hides the all-to-alls of experts."""
    if overlapped_with == "computation":
        return overlapped_with_computation(segments)
    return overlapped_with_shared_experts(segments) if overlapped_with == "shared_experts" else list(segments)


def _can_follow(exchange: Exchange | None, operators: Sequence[Operator]) -> bool:
    """Whether an all-gather comes before a product that can be cut."""
    gathers = exchange is not None and exchange.kind is CollectiveKind.ALL_GATHER and exchange.over == "tensor"
    return gathers and len(operators) > 1 and _is_product(operators[0], Split.COLUMN)


def _can_precede(exchange: Exchange, operators: Sequence[Operator]) -> bool:
    """Whether a reduce-scatter comes behind a product that can be cut."""
    return exchange.kind is CollectiveKind.REDUCE_SCATTER and _is_product(operators[-1], Split.ROW)


def _is_product(operator: Operator, split: Split) -> bool:
    return operator.kind is OperatorKind.GEMM and operator.split is split and operator.experts == 1


def _step(exchange: Exchange, degree: int) -> Exchange:
    """One step of the ring that carries out a collective."""
    return replace(exchange, kind=CollectiveKind.SEND_RECV, elements_per_token=exchange.elements_per_token / degree)


def _around(operators: tuple[Operator, ...], step: Exchange, degree: int, backward_factor: float) -> list[Segment]:
    """Operators overlapped with each step around a ring."""
    return [Segment(operators, step, overlapped=True, backward_factor=backward_factor)] * (degree - 1)


def divided(operator: Operator, parts: int) -> Operator:
    """One of a number of equal parts of an operator, by tokens or pairs."""
    return replace(
        operator,
        parameters=operator.parameters / parts,
        frozen=operator.frozen / parts,
        frozen_bytes=operator.frozen_bytes / parts,
        rows_per_token=operator.rows_per_token / parts,
        flop_per_token=operator.flop_per_token / parts,
        elements_per_token=operator.elements_per_token / parts,
        flop_per_pair=operator.flop_per_pair / parts,
        elements_per_pair=operator.elements_per_pair / parts,
        kept_elements_per_pair=operator.kept_elements_per_pair / parts,
        elements_per_key_token=operator.elements_per_key_token / parts,
        elements_per_context_token=operator.elements_per_context_token / parts,
    )
