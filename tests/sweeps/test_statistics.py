from __future__ import annotations

import pytest
from scipy.stats import t

from simsys.sweeps.statistics import half_width, mean, t_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 10, 31, 999])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_quantiles_are_those_of_scipy(confidence: float, freedom: int) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(t.ppf((1 + confidence) / 2, freedom), rel=1e-9)


def test_an_interval_needs_two_values() -> None:
    assert half_width([3.0]) is None
    assert half_width([3.0, 3.0]) == 0.0
    values = [1.0, 2.0, 4.0, 7.0]
    low, high = t.interval(0.95, 3, loc=mean(values), scale=1.3228756555322954)
    assert half_width(values) == pytest.approx((high - low) / 2)
