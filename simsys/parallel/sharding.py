"""One rank's share of an operator: under tensor parallelism, by tokens, and of routed experts.

Column-, head- and vocabulary-split operators shrink by the tensor-parallel degree; row-split ones shrink and leave
partial sums (Shoeybi et al. 2019, §3).
"""

from __future__ import annotations

from dataclasses import replace

from simsys.errors import UsageError
from simsys.model.operators import Operator, OperatorKind, Split

PADDED = 8
"""Elements of which a part of a divided vocabulary has a multiple; Megatron-LM pads to 128."""


def shard(operator: Operator, degree: int, num_key_value_heads: int = 0) -> Operator:
    """One rank's share of an operator under tensor parallelism of `degree`.

    Beyond one rank per key-value head, the cached heads are replicated: each rank still reads one whole head.

    Raises:
        UsageError: If a GEMM dimension or the number of KV elements cannot be divided.
    """
    if degree == 1 or operator.split is Split.REPLICATED:
        return operator
    share = replace(
        operator,
        parameters=operator.parameters / degree,
        frozen=operator.frozen / degree,
        frozen_bytes=operator.frozen_bytes / degree,
        flop_per_token=operator.flop_per_token / degree,
        flop_per_pair=operator.flop_per_pair / degree,
        elements_per_pair=operator.elements_per_pair / degree,
        kept_elements_per_pair=operator.kept_elements_per_pair / degree,
        elements_per_key_token=operator.elements_per_key_token / degree,
        kv_elements_per_token=operator.kv_elements_per_token / degree,
        elements_per_sequence=operator.elements_per_sequence / degree,
        elements_per_context_token=operator.elements_per_context_token / min(degree, num_key_value_heads or degree),
    )
    if operator.split is Split.COLUMN and operator.kind is OperatorKind.GEMM:
        return replace(
            share,
            columns=_divide(operator, "columns", degree),
            elements_per_token=_gemm_elements(operator, operator.inner, operator.columns / degree),
        )
    if operator.split is Split.ROW:
        return replace(
            share,
            inner=_divide(operator, "inner", degree),
            elements_per_token=_gemm_elements(operator, operator.inner / degree, operator.columns),
        )
    if operator.split is Split.VOCABULARY and operator.kind is OperatorKind.GEMM:
        # A vocabulary is padded until each part has aligned rows.
        columns = -(-operator.columns // (degree * PADDED)) * PADDED
        return replace(share, columns=columns, elements_per_token=_gemm_elements(operator, operator.inner, columns))
    return replace(share, elements_per_token=operator.elements_per_token / degree)


def divided_by_tokens(operator: Operator, degree: int) -> Operator:
    """One rank's share of an operator that holds all weights and works on its part of the tokens."""
    return replace(
        operator,
        rows_per_token=operator.rows_per_token / degree,
        flop_per_token=operator.flop_per_token / degree,
        elements_per_token=operator.elements_per_token / degree,
    )


def expert_share(operator: Operator, ranks: int, load: float) -> Operator:
    """One rank's share of routed experts that are divided among `ranks`.

    It holds a part of the experts and works on as many tokens as it has sent away, if all are equally busy.

    Args:
        operator: Of all experts.
        ranks: Expert-parallel degree.
        load: Tokens of the busiest rank over the mean.
    """
    return replace(_some_experts(operator, ranks, load, load), expert_ranks=ranks)


def expert_part(operator: Operator, ranks: int, load: float) -> Operator:
    """The busiest rank's share of routed experts that are divided among the ranks of tensor parallelism.

    It holds a part of the experts and works on the tokens of all that are routed to these.

    Args:
        operator: Of all experts.
        ranks: Ranks among which the experts are divided.
        load: Tokens of the busiest rank over the mean.
    """
    return _some_experts(operator, ranks, load, load / ranks)


def wide_share(operator: Operator, ranks: int, load: float, tensor: int, replicas: int) -> Operator:
    """The busiest rank's share of routed experts that several data-parallel ranks of attention share.

    Its tokens are those of all data-parallel ranks, given the mean of these.

    Args:
        operator: Of all experts.
        ranks: Expert-parallel ranks.
        load: Tokens of the busiest rank over the mean.
        tensor: GPUs of an expert-parallel rank, which divide each expert.
        replicas: Data-parallel ranks.

    Raises:
        UsageError: If an expert cannot be divided so.
    """
    held = _some_experts(shard(operator, tensor), ranks, load, load * replicas / ranks)
    return replace(held, expert_ranks=replicas)


def _some_experts(operator: Operator, ranks: int, load: float, tokens: float) -> Operator:
    """The experts of one of several ranks, which works on a multiple `tokens` of the operator's tokens."""
    return replace(
        operator,
        parameters=operator.parameters / ranks,
        frozen=operator.frozen / ranks,
        frozen_bytes=operator.frozen_bytes / ranks,
        rows_per_token=operator.rows_per_token * tokens,
        flop_per_token=operator.flop_per_token * tokens,
        elements_per_token=operator.elements_per_token * tokens,
        experts_held=operator.experts // ranks,
        expert_load=load,
    )


def _divide(operator: Operator, field: str, degree: int) -> int:
    size: int = getattr(operator, field)
    if size % degree:
        raise UsageError(
            f"operator {operator.name!r} has {size} {field}, which tensor parallelism of {degree} does not divide"
        )
    return size // degree


def _gemm_elements(operator: Operator, inner: float, columns: float) -> float:
    return (inner + columns) * operator.rows_per_token
