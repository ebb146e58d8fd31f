"""Values that change at known times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform.timeline import Period, timeline

times = st.floats(0.0, 1e6)


@given(st.lists(st.tuples(times, st.one_of(st.just(math.inf), times))), times)
def test_what_holds_is_what_the_periods_around_the_time_say(bounds: list[tuple[float, float]], time_s: float) -> None:
    periods = [Period(start_s, end_s) for start_s, end_s in bounds if start_s < end_s]
    built = timeline(periods, lambda inside: inside)
    near = [bound for each in periods for bound in (each.start_s, each.end_s) if math.isclose(bound, time_s)]
    if not near:
        inside = tuple(place for place, each in enumerate(periods) if each.start_s < time_s < each.end_s)
        assert built.at(time_s) == inside
    assert built.starts_s[0] == 0.0
    assert list(built.starts_s) == sorted(set(built.starts_s))


def test_equal_periods_have_the_same_object_and_what_does_not_change_has_no_changes() -> None:
    built = timeline([Period(1.0, 2.0), Period(3.0, 4.0)], lambda inside: [inside])
    assert built.at(0.5) is built.at(2.5) is built.at(9.0)
    assert len(built.changes_s) == 4
    assert timeline([Period(0.0)], lambda inside: [inside]).changes_s == ()


@pytest.mark.parametrize("change_s", [1.0, 3600.0, 1e6])
def test_what_begins_at_a_change_but_for_rounding_begins_after_it(change_s: float) -> None:
    built = timeline([Period(change_s)], bool)
    assert built.at(change_s * (1 - 1e-12))
    assert not built.at(change_s * (1 - 1e-6))
