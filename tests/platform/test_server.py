"""The calendar of a FIFO server equals a queue of SimPy processes, bit by bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform.server import CalendarServer
from tests.helpers.reference import queue_ends

seconds = st.one_of(st.floats(0.0, 10.0), st.integers(0, 5).map(float))  # whole numbers for ties
plans = st.lists(st.tuples(seconds, seconds), max_size=40).map(lambda plan: sorted(plan, key=lambda entry: entry[0]))


def calendar_ends(plan: list[tuple[float, float]]) -> list[float]:
    server = CalendarServer()
    return [server.reserve(arrival_s, service_s) for arrival_s, service_s in plan]


@given(plans)
def test_the_ends_are_those_of_a_queue(plan: list[tuple[float, float]]) -> None:
    assert calendar_ends(plan) == queue_ends(plan)


@given(plans)
def test_it_works_no_longer_than_it_is_there_and_no_less_than_asked(plan: list[tuple[float, float]]) -> None:
    server = CalendarServer()
    for arrival_s, service_s in plan:
        server.reserve(arrival_s, service_s)
    assert server.busy_s == pytest.approx(sum(service_s for _, service_s in plan))
    assert server.busy_s <= server.free_at_s * (1 + 1e-12)


def test_waiting_and_idle_times() -> None:
    server = CalendarServer()
    assert server.reserve(1.0, 2.0) == 3.0  # idle until 1
    assert server.reserve(2.0, 5.0) == 8.0  # waits for the first
    assert server.reserve(10.0, 0.0) == 10.0
    assert server.busy_s == 7.0


def test_busy_time_so_far_leaves_out_what_is_still_to_come() -> None:
    server = CalendarServer()
    server.reserve(1.0, 2.0)
    server.reserve(1.0, 4.0)
    assert [server.busy_before(now_s) for now_s in (1.0, 2.0, 6.5, 7.0, 9.0)] == [0.0, 1.0, 5.5, 6.0, 6.0]
