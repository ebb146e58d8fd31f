"""Confidence intervals of ratios over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

CONFIDENCE = 0.95


def interval(ratios: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the geometric mean of positive ratios and the ends of its confidence interval; None below two ratios.

    The logarithms are taken as normal with unknown variance, so the interval is Student's.

    Args:
        ratios: One ratio for each seed; both runs of a ratio have the same seed.

    Example:
        >>> interval([1.0, 1.0])
        (1.0, 1.0, 1.0)
    """
    if len(ratios) < 2:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = fmean(logs), student_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t distribution, by bisection of its distribution function.

    Args:
        freedom: Degrees of freedom, from 1.
        confidence: Probability between the quantile and its negative.

    Example:
        >>> round(student_quantile(1), 3), round(student_quantile(9), 3)
        (12.706, 2.262)
    """
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return the probability of values between -t and t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(freedom))
    cosine_squared = math.cos(theta) ** 2
    if freedom % 2 == 0:
        term, total = 1.0, 1.0
        for each in range(2, freedom, 2):
            term *= cosine_squared * (each - 1) / each
            total += term
        return math.sin(theta) * total
    term, total = math.cos(theta), math.cos(theta) if freedom > 1 else 0.0
    for each in range(3, freedom, 2):
        term *= cosine_squared * (each - 1) / each
        total += term
    return 2.0 / math.pi * (theta + math.sin(theta) * total)
