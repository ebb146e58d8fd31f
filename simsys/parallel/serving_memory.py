"""Device memory of a rank of a serving replica, by component."""

from __future__ import annotations

from simsys.model.operators import OperatorKind
from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.passes import ForwardPass
from simsys.sums import ordered_sum

HALF_BYTES = 2.0


def serving_memory(
    plan: ForwardPass,
    precision: Precision,
    *,
    max_batched_tokens: int,
    max_num_seqs: int,
    context_bytes: float,
    tied: bool = False,
) -> dict[str, float]:
    """Memory of one rank of a serving replica without the KV cache in bytes, by component.

    The activation peak is in a full step: input and output of the widest operator, and the fp32 logits of
    the sampled sequences.

    Args:
        plan: The rank's share of the model, or of its pipeline stage.
        precision: Storage precision of weights and activations.
        max_batched_tokens: Tokens of a full step.
        max_num_seqs: Sequences sampled in a step.
        context_bytes: Memory of the runtime and its libraries.
        tied: True if embedding and head are one table, which a rank with both stores once.
    """
    logits = head_columns(plan) * max_num_seqs * FP32_BYTES
    return {
        "weights": weight_bytes(plan, precision, tied=tied),
        "activations": plan.widest_elements_per_token * max_batched_tokens * precision.activation_bytes + logits,
        "context": context_bytes,
    }


def weight_bytes(plan: ForwardPass, precision: Precision, *, tied: bool = False) -> float:
    """Bytes of a rank's weights."""
    operators = [(stretch.repeat, operator) for stretch in plan.stretches for operator in stretch.operators]
    shared = tied and any(operator.lookup for _, operator in operators)
    return ordered_sum(
        repeat * operator.parameters * precision.bytes_per_weight(operator)
        for repeat, operator in operators
        if not (shared and operator.is_head)
    )


def expert_bytes(plan: ForwardPass, precision: Precision) -> float:
    """Bytes of a rank's routed experts."""
    return ordered_sum(
        stretch.repeat * operator.parameters * precision.bytes_per_weight(operator)
        for stretch in plan.stretches
        for operator in stretch.operators
        if operator.experts > 1
    )


def head_columns(plan: ForwardPass) -> int:
    """Logits of each sequence that a rank computes; 0 if the head is elsewhere."""
    heads = (operator for stretch in plan.stretches for operator in stretch.operators if operator.is_head)
    return sum(operator.columns for operator in heads)


def kv_bytes_per_token(plan: ForwardPass, precision: Precision) -> float:
    """KV-cache bytes that a rank keeps for each token of context; heads are replicated beyond one rank per head."""
    elements = ordered_sum(
        stretch.repeat * operator.elements_per_context_token
        for stretch in plan.stretches
        for operator in stretch.operators
        if operator.kind is OperatorKind.DECODE_ATTENTION
    )
    return elements * precision.kv_bytes


def sequence_bytes(plan: ForwardPass) -> float:
    """Bytes that a rank keeps for each running sequence, however long it is: windows and states."""
    elements = ordered_sum(
        stretch.repeat * operator.elements_per_sequence for stretch in plan.stretches for operator in stretch.operators
    )
    return elements * HALF_BYTES
