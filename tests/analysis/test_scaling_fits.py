"""Fits of the laws of scaling recover planted fractions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.analysis.scaling_fits import LAWS, Law, fit, speedup

SIZES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]


@pytest.mark.parametrize("law", LAWS)
@given(fraction=st.floats(0.0, 1.0))
def test_planted_fractions_are_recovered(law: Law, fraction: float) -> None:
    found = fit(law, SIZES, [speedup(law, fraction, size) for size in SIZES])
    assert found is not None
    assert found.fraction == pytest.approx(fraction, rel=0.02, abs=1e-9)
    assert found.deviation < 1e-6


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.3, 0.7])
def test_they_are_recovered_from_measurements_that_scatter(law: Law, fraction: float) -> None:
    """By half a percent; the mean of twenty studies is within 2 %."""
    draw, found = random.Random(3), []
    for _ in range(20):
        noisy = [speedup(law, fraction, size) * draw.gauss(1.0, 0.005) for size in SIZES[1:]]
        fitted = fit(law, SIZES, [1.0, *noisy])
        assert fitted is not None
        found.append(fitted.fraction)
    assert sum(found) / len(found) == pytest.approx(fraction, rel=0.02)


def test_superlinear_scaling_has_no_serial_part() -> None:
    found = fit("Amdahl", [1.0, 2.0], [1.0, 2.5])
    assert found is not None
    assert (found.fraction, found.limit) == (0.0, None)


def test_one_size_cannot_be_fitted() -> None:
    assert fit("Amdahl", [1.0], [1.0]) is fit("Gustafson", [], []) is None


def test_the_deviation_shows_which_law_does_not_hold() -> None:
    speedups = [speedup("Amdahl", 0.2, size) for size in SIZES]
    one, other = fit("Amdahl", SIZES, speedups), fit("Gustafson", SIZES, speedups)
    assert one is not None
    assert other is not None
    assert one.deviation < 1e-9 < 0.2 < other.deviation
    assert one.limit == pytest.approx(5.0)
    assert other.limit is None
