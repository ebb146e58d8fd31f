"""The decisions of the rule on logs of queues that are computed here."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.capacity.until_steady import EARLIEST, FIRST, REQUESTS, TIME, Missed, UntilSteady, Verdict
from simsys.metrics.serving_log import ServingLog
from simsys.serving.requests import RequestTable


def log_of(count: int, stay_s: np.ndarray | float, wait_s: np.ndarray | float = 0.0) -> ServingLog:
    """Ten requests arrive per second, wait, and stay for some time after that."""
    arrival_s = np.arange(count) / 10.0
    log = ServingLog(RequestTable(arrival_s.tolist(), [10] * count, [2] * count))
    log.admitted_s[:] = _column(arrival_s + wait_s)
    log.first_token_s[:] = log.admitted_s
    log.finished_s[:] = _column(arrival_s + wait_s + stay_s)
    return log


def _column(times_s: np.ndarray) -> object:
    from array import array

    return array("d", times_s.tolist())


def ended(rule: UntilSteady, log: ServingLog) -> list[float]:
    """The times at which the rule is asked, each with what the log shows at that time."""
    whole = {name: np.array(getattr(log, name)) for name in ("admitted_s", "first_token_s", "finished_s")}
    rule.watch(log)
    times_s = [rule.first_s(log.requests)]
    while True:
        for name, column in whole.items():
            getattr(log, name)[:] = _column(np.where(column <= times_s[-1], column, -1.0))
        later_s = rule.later_s(times_s[-1])
        if later_s is None:
            return times_s
        times_s.append(later_s)


def test_it_decides_when_twice_as_many_requests_have_arrived() -> None:
    rule, log = UntilSteady(), log_of(10_000, 8.0)
    assert ended(rule, log) == [log.requests.arrival_s[FIRST * 2**k - 1] for k in range(5)]
    assert FIRST * 2**4 == EARLIEST
    assert rule.verdict is Verdict.STEADY
    assert rule.limit == ""
    assert rule.since_s == log.requests.arrival_s[EARLIEST // 2]


def test_requests_that_have_not_ended_are_not_measured() -> None:
    """Of the later half of 4,000 requests, those of the last 120 s are under way, which leaves less than 1,000."""
    rule, log = UntilSteady(), log_of(20_000, 120.0)
    assert ended(rule, log)[-1] == log.requests.arrival_s[2 * EARLIEST - 1]
    assert rule.verdict is Verdict.STEADY


def test_a_growing_queue_is_overloaded_from_4000_requests_on() -> None:
    count = 10_000
    rule, log = UntilSteady(), log_of(count, 8.0, wait_s=0.1 * np.arange(count) / 10.0)
    assert ended(rule, log)[-1] == log.requests.arrival_s[EARLIEST - 1]
    assert rule.verdict is Verdict.OVERLOADED
    assert rule.in_queue is not None
    assert rule.in_queue.share == pytest.approx(1.0 - 1.0 / 1.1, rel=0.05)


def test_a_growing_run_that_misses_ends_early() -> None:
    count = 10_000
    rule = UntilSteady(misses=lambda log, since_s, now_s: Missed(int(now_s - since_s > 40.0)))
    log = log_of(count, 8.0, wait_s=0.1 * np.arange(count) / 10.0)
    assert ended(rule, log)[-1] == log.requests.arrival_s[2 * 2 * FIRST - 1]
    assert rule.verdict is Verdict.MISSED


@pytest.mark.parametrize(("missed", "checks"), [(Missed.BY_LITTLE, 2), (Missed.BY_FAR, 1)])
def test_a_run_that_misses_without_growth_ends_the_second_time_or_by_far(missed: Missed, checks: int) -> None:
    """A few requests after 4,000 stay for long, so that the run is not steady at 4,000 nor at 8,000."""
    stay_s = np.full(20_000, 8.0)
    stay_s[2_500] = stay_s[5_000] = 10_000.0
    rule, log = UntilSteady(misses=lambda *_: missed), log_of(20_000, stay_s)
    assert ended(rule, log)[-1] == log.requests.arrival_s[checks * EARLIEST - 1]
    assert rule.verdict is Verdict.MISSED


def test_the_limits_are_named() -> None:
    rule, log = UntilSteady(), log_of(700, 8.0)
    assert ended(rule, log)[-1] == log.requests.arrival_s[-1]
    assert (rule.verdict, rule.limit) == (Verdict.GROWING, REQUESTS)
    rule = UntilSteady(most_seconds=0.0)
    assert ended(rule, log_of(10_000, 8.0)) == [24.9]
    assert (rule.verdict, rule.limit) == (Verdict.GROWING, TIME)


def test_rejected_requests_are_not_in_the_system() -> None:
    rule, log = UntilSteady(), log_of(10_000, 8.0)
    for request in range(0, 10_000, 2):
        log.rejected[request] = "too long"
        log.admitted_s[request] = log.first_token_s[request] = log.finished_s[request] = -1.0
    ended(rule, log)
    assert rule.verdict is Verdict.STEADY
