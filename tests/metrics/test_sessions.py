"""Times of whole sessions, with and without retries."""

from __future__ import annotations

import pytest

from simsys.metrics.serving import serving_metrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.sessions import session_times_s
from simsys.serving.requests import RequestTable
from simsys.serving.selection import with_attempts


def table() -> RequestTable:
    return RequestTable(
        [0.0] * 5, [4] * 5, [6] * 5, session=[0, 0, 1, 1, 2], turn=[0, 1, 0, 1, 0], after=[-1, 0, -1, 2, -1]
    )


def test_a_session_lasts_from_its_first_request_to_its_last_answer() -> None:
    log = ServingLog(table())
    for row, (arrival_s, end_s) in enumerate([(1.0, 2.0), (4.0, 9.0), (2.0, 3.0), (5.0, -1.0), (6.0, 7.5)]):
        log.arrival_s[row], log.finished_s[row] = arrival_s, end_s
        log.admitted_s[row] = log.first_token_s[row] = arrival_s if end_s >= 0 else -1.0
    times_s = session_times_s(log)
    assert times_s is not None
    assert times_s.tolist() == [8.0, 1.5]
    figures = serving_metrics(log, {})
    assert figures["completed_sessions"] == 2
    assert figures["p50_session_ms"] == pytest.approx(4750.0)


def test_a_retried_turn_counts_once() -> None:
    log = ServingLog(with_attempts(table(), 1, [1.0] * 5))
    for row, (arrival_s, end_s) in {0: (1.0, -1.0), 1: (2.0, 3.0), 2: (4.0, 6.0)}.items():
        log.arrival_s[row], log.finished_s[row] = arrival_s, end_s
    times_s = session_times_s(log)
    assert times_s is not None
    assert times_s.tolist() == [5.0]


def test_single_requests_are_no_sessions() -> None:
    assert session_times_s(ServingLog(RequestTable([0.0], [4], [4]))) is None


def test_thoughts_of_completed_requests_are_counted() -> None:
    log = ServingLog(RequestTable([0.0, 0.0], [4, 4], [9, 9], reasoning_tokens=[5, 7]))
    log.admitted_s[0] = log.first_token_s[0] = 0.5
    log.finished_s[0] = 1.0
    assert serving_metrics(log, {})["total_reasoning_tokens"] == 5
    assert list(log.rows()["reasoning_tokens"]) == [5, 7]
