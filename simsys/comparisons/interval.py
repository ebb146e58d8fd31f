"""Confidence intervals of ratios over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simsys.sweeps.statistics import half_width, mean


def interval(ratios: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the geometric mean of positive ratios with its 95 % confidence interval; None below two ratios.

    The logarithms are taken as normal with unknown variance, so the interval is Student's.

    Args:
        ratios: One ratio for each seed; both runs of a ratio have the same seed.

    Example:
        >>> interval([1.0, 1.0])
        (1.0, 1.0, 1.0)
    """
    logs = [math.log(ratio) for ratio in ratios]
    half = half_width(logs)
    if half is None:
        return None
    middle = mean(logs)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
