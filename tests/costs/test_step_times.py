"""Sums of durations in closed form, against adding them up one by one."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.costs.step_times import Line, StepTimes

seconds = st.floats(0.0, 1.0)
lines = st.tuples(seconds, st.one_of(st.just(0.0), st.floats(0.0, 0.01)))
kernels = st.lists(st.lists(lines, min_size=1, max_size=4), min_size=1, max_size=4)
STEPS = 200


def step_times(kernels: list[list[Line]], idle_s: float = 0.25) -> StepTimes:
    times = StepTimes(idle_s, 0.0, idle_s)
    for bounds in kernels:
        times.add(bounds)
    return times


def one_by_one(kernels: list[list[Line]], idle_s: float = 0.25) -> list[float]:
    return [idle_s + sum(max(a + b * step for a, b in bounds) for bounds in kernels) for step in range(STEPS)]


@given(kernels)
def test_a_step_takes_the_largest_bound_of_every_kernel(kernels: list[list[Line]]) -> None:
    times = step_times(kernels)
    assert [times.duration(step) for step in range(STEPS)] == pytest.approx(one_by_one(kernels), rel=1e-12)


@given(kernels)
def test_the_sum_is_that_of_the_steps_one_by_one(kernels: list[list[Line]]) -> None:
    times = step_times(kernels)
    sums = [0.0, *accumulate(one_by_one(kernels))]
    assert [times.elapsed(steps) for steps in range(STEPS + 1)] == pytest.approx(sums, rel=1e-12)


@given(kernels, st.floats(0.0, 1e6), st.floats(0.0, 1.0), st.integers(1, 50), st.integers(0, 149))
def test_the_boundary_is_the_first_that_is_not_before_a_time(
    kernels: list[list[Line]], anchor_s: float, share: float, first: int, more: int
) -> None:
    times, last = step_times(kernels), first + more
    ends_s = [anchor_s + times.elapsed(steps) for steps in range(last + 1)]
    for time_s in (anchor_s + share * times.elapsed(last), ends_s[first], ends_s[(first + last) // 2]):
        expected = next((steps for steps in range(first, last) if ends_s[steps] >= time_s), last)
        assert times.boundary(anchor_s, time_s, first, last) == (expected, ends_s[expected])


@given(kernels, st.integers(0, 50), st.integers(1, 100))
def test_durations_grow_evenly_within_a_stretch(kernels: list[list[Line]], first: int, count: int) -> None:
    times, end = step_times(kernels), first + count
    stops = times.stretches(first, end)
    assert list(stops) == sorted(set(stops))
    assert stops[-1] == end
    for stop in stops:
        durations = [times.duration(step) for step in range(first, stop)]
        growth_s = durations[1] - durations[0] if len(durations) > 1 else 0.0
        assert durations == pytest.approx([durations[0] + growth_s * step for step in range(len(durations))])
        first = stop


def test_a_bound_that_is_overtaken_at_once_leaves_no_kink() -> None:
    times = step_times([[(1.0, 0.0), (1.0, 0.5)]], idle_s=0.0)
    assert (times.first_s, times.growth_s, times.breakpoints) == (1.0, 0.5, [])


def test_a_kink_is_where_the_steeper_bound_is_above() -> None:
    times = step_times([[(1.0, 0.0), (0.0, 0.25)]], idle_s=0.0)
    assert [times.duration(step) for step in (3, 4, 5, 6)] == [1.0, 1.0, 1.25, 1.5]
    assert times.stretches(0, 10) == [5, 10]


@given(kernels, st.floats(0.0, 8.0))
def test_steps_that_are_shorter_than_the_host_wait_for_it(kernels: list[list[Line]], least_s: float) -> None:
    times = step_times(kernels)
    longer = times.at_least(least_s)
    expected = [max(least_s, seconds) for seconds in one_by_one(kernels)]
    assert [longer.duration(step) for step in range(STEPS)] == pytest.approx(expected, rel=1e-9)
    sums = [0.0, *accumulate(expected)]
    assert [longer.elapsed(steps) for steps in range(STEPS + 1)] == pytest.approx(sums, rel=1e-9)
    computing_s = sum(one_by_one(kernels)[10:90]) - 80 * times.idle_s
    spent_s = longer.elapsed(90) - longer.elapsed(10)
    assert longer.computing_s(10, 90, spent_s) == pytest.approx(computing_s, rel=1e-9, abs=1e-9)


def test_steps_that_are_long_enough_stay_as_they_are() -> None:
    times = step_times([[(1.0, 0.5)]])
    assert times.at_least(1.25) is times
