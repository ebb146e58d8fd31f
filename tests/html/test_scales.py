"""Scales: places and round ticks."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from simsys.html.scales import linear, logarithmic, round_step
from simsys.report.text import tick_text

VALUES = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20)


@given(VALUES, st.booleans())
def test_values_lie_between_the_ends_in_their_order(values: list[float], log: bool) -> None:
    scale = (logarithmic if log else linear)(values, 10.0, 110.0)
    places = [scale(value) for value in sorted(values)]
    assert all(10.0 - 1e-9 <= place <= 110.0 + 1e-9 for place in places)
    assert places == sorted(places)


@given(VALUES, st.booleans(), st.integers(2, 8))
def test_ticks_are_few_and_inside(values: list[float], log: bool, most: int) -> None:
    scale = (logarithmic if log else linear)(values, 0.0, 100.0)
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 1
    assert all(scale.low * (1 - 1e-8) - 1e-12 <= tick <= scale.high * (1 + 1e-8) + 1e-12 for tick in ticks)


@given(st.floats(1e-12, 1e12))
def test_a_step_is_1_2_or_5(least: float) -> None:
    step = round_step(least)
    assert step >= least * (1 - 1e-9)
    digit = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(digit - each) for each in (1.0, 2.0, 5.0)) < 1e-6


def test_texts_of_ticks() -> None:
    assert [tick_text(value) for value in (0.0, 0.5, 1000.0, 20000.0, 3e9)] == ["0", "0.5", "1000", "20k", "3G"]


def test_equal_values_have_a_scale() -> None:
    assert linear([0.0], 0.0, 1.0)(0.0) == 0.0
    assert 0.0 <= logarithmic([5.0, 5.0], 0.0, 1.0)(5.0) <= 1.0
