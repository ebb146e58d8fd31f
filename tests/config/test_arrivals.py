"""The expected number of arrivals is the mean of drawn ones."""

from __future__ import annotations

import pytest

from simsys.build.distributions import draw_arrivals
from simsys.config.arrivals import PoissonArrivals, TimeVaryingArrivals, expected_arrivals

RATES = [{"duration": "2 s", "rate": "300 req/s"}, {"duration": "3 s", "rate": "50 req/s"}]


@pytest.mark.parametrize(("duration_s", "expected"), [(1.0, 300), (4.0, 700), (5.0, 750), (6.0, 1050), (13.0, 2150)])
def test_a_rate_that_repeats(duration_s: float, expected: float) -> None:
    arrivals = TimeVaryingArrivals.model_validate({"rates": RATES})
    assert expected_arrivals(arrivals, duration_s) == expected
    drawn = [len(draw_arrivals(arrivals, 10_000, duration_s, seed)) for seed in range(40)]
    assert sum(drawn) / 40 == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("duration_s", "expected"), [(1.0, 300), (4.0, 700), (13.0, 1150)])
def test_a_last_rate_that_continues(duration_s: float, expected: float) -> None:
    arrivals = TimeVaryingArrivals.model_validate({"rates": RATES, "repeat": False})
    assert expected_arrivals(arrivals, duration_s) == expected


def test_one_rate() -> None:
    assert expected_arrivals(PoissonArrivals.model_validate({"rate": "8 req/s"}), 60.0) == 480
