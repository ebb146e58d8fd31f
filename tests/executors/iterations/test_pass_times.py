"""Sums over the operations of passes."""

from __future__ import annotations

import pytest

from simsys.collectives import CollectiveKind
from simsys.executors.iterations.pass_times import PassTimes
from simsys.ops import Collective
from simsys.parallel.layout import Layout

LAYOUT = Layout(tensor=2, data=2)
TENSOR, DATA = (
    Collective(0, CollectiveKind.ALL_REDUCE, LAYOUT.group(0, axis), 8.0, axis) for axis in ("tensor", "data")
)


def test_a_pass_takes_its_computation_and_what_is_not_beside_it() -> None:
    times = PassTimes()
    times.compute(3.0)
    times.exchange(TENSOR, 1.5, 1.0)
    times.exchange(DATA, 0.25)
    assert times.seconds == 3.75


def test_a_gpu_is_busy_with_its_work_and_not_with_waiting_for_launches() -> None:
    times, both = PassTimes(), PassTimes()
    assert [times.compute(3.0, 1.0), times.compute(1.0, 6.0)] == [3.0, 4.0]
    both.add(times, 2)
    assert (both.compute_s, both.busy_s) == (14.0, 8.0)


def test_collectives_are_told_apart_by_axis_and_those_of_no_time_are_none() -> None:
    times = PassTimes()
    times.exchange(TENSOR, 1.0)
    times.exchange(TENSOR, 1.5, 0.5)
    times.exchange(DATA, 0.0)
    assert {axis: (each.alone_s, each.overlapped_s) for axis, each in times.exchanges.items()} == {
        "tensor": (2.0, 0.5)
    }


@pytest.mark.parametrize(("compute_s", "exposed_s"), [(0.0, 1.0), (0.75, 1.0), (1.5, 0.5), (2.0, 0.0), (9.0, 0.0)])
def test_what_is_beside_a_long_computation_may_take_longer_at_no_cost(compute_s: float, exposed_s: float) -> None:
    times, twice = PassTimes(), PassTimes()
    for each, seconds in ((times, 1.0), (twice, 2.0)):
        each.compute(compute_s)
        each.exchange(TENSOR, seconds, compute_s)
    assert times.exchanges["tensor"].exposed_s == exposed_s == twice.seconds - times.seconds


def test_launches_run_ahead_of_collectives() -> None:
    times = PassTimes()
    assert times.compute(1.0, 2.0) == 2.0, "it waits for its launches"
    times.exchange(TENSOR, 1.5)
    assert times.compute(1.0, 2.0) == 1.0, "what was launched during the collective"
    assert times.compute(0.1, 2.0) == pytest.approx(6.0 - 4.5), "all have been launched after 6 s"
    assert times.seconds == 6.0


def test_passes_are_counted() -> None:
    one, many = PassTimes(), PassTimes()
    one.compute(2.0)
    one.exchange(TENSOR, 1.25, 0.25)
    many.add(one, 3)
    many.add(one, 1)
    assert many.compute_s == 8.0
    assert many.seconds == 4 * one.seconds
    assert many.exchanges["tensor"].overlapped_s == 1.0
