"""How many kernels the host launches for operators, relative to a dense layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simsys.model.operators import Operator, OperatorKind
from simsys.sums import ordered_sum

DENSE_LAUNCHES = 8
"""Kernels of a dense layer: two norms, four products, attention and an activation."""


def launches_of(operators: Sequence[Operator], factors: Mapping[str, float] | None = None) -> float:
    """Number of kernels relative to a dense layer.

    Args:
        operators: The operators of a segment.
        factors: By what an operator has more than one kernel for: what each further one counts as; by default 1.
    """
    launched = [operator for operator in operators if operator.kind is not OperatorKind.DECODE_ATTENTION]
    counts = (
        1.0 + (operator.launches - 1) * (factors or {}).get(operator.launches_for, 1.0)
        if operator.launches_for
        else 1.0
        for operator in launched
    )
    return ordered_sum(counts) / DENSE_LAUNCHES
