"""Confidence intervals over seeds."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from simsys.comparisons.interval import interval


def test_the_interval_is_that_of_the_logarithms() -> None:
    found = interval([1.0, math.e])
    assert found is not None
    half = float(stats.t.ppf(0.975, 1)) * math.sqrt(0.5) / math.sqrt(2.0)
    assert found == pytest.approx((math.exp(0.5), math.exp(0.5 - half), math.exp(0.5 + half)))


def test_one_run_has_no_interval() -> None:
    assert interval([1.3]) is None


def test_nine_of_ten_intervals_and_more_hold_the_truth() -> None:
    import numpy as np

    draws = np.exp(np.random.default_rng(1).normal(0.1, 0.2, (400, 5)))
    found = [interval(list(map(float, row))) for row in draws]
    held = [each is not None and each[1] <= math.exp(0.1) <= each[2] for each in found]
    assert 0.92 < sum(held) / len(held) < 0.98
