"""Means over seeds with confidence intervals of Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from simsys.sums import ordered_sum

CONFIDENCE = 0.95
_HALVINGS = 80


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value, added in order."""
    return ordered_sum(values) / len(values)


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Half the width of the confidence interval of the mean of independent values; None of fewer than two.

    Args:
        values: The values.
        confidence: Probability that the interval contains the mean.
    """
    if len(values) < 2:
        return None
    middle = mean(values)
    variance = ordered_sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return t_quantile(confidence, len(values) - 1) * math.sqrt(variance / len(values))


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, freedom: int) -> float:
    """The value between whose negative and itself a variable of Student's t distribution lies with this probability.

    Args:
        confidence: The probability, between 0 and 1.
        freedom: Degrees of freedom, at least 1.

    Example:
        >>> round(t_quantile(0.95, 4), 4)
        2.7764
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, freedom) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _probability(angle: float, freedom: int) -> float:
    """The probability of a value up to ``tan(angle) * sqrt(freedom)`` in size (Abramowitz and Stegun, 26.7.3–4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total
