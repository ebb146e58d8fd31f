"""The log of a serving run: columns that say None where nothing has happened, and records of steps."""

from __future__ import annotations

import json
import pickle
from array import array
from dataclasses import replace

import numpy as np
import pytest

from simsys.metrics.serving import serving_metrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.step_log import StepLog
from simsys.metrics.table_columns import Times
from simsys.serving.cancelled import Cancelled
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.selection import with_attempts


def test_times_are_none_where_there_is_none_yet() -> None:
    times = Times(array("d", [0.0, -1.0, 2.5]))
    assert times == [0.0, None, 2.5]
    assert times != [0.0, None]
    assert times[1] is None
    assert times[-1] == 2.5
    assert times[1:] == [None, 2.5]
    assert times.count(None) == 1
    as_numpy = np.asarray(times, dtype=float)
    assert np.isnan(as_numpy).tolist() == [False, True, False]


def test_rows_can_be_kept_and_sent_to_another_process() -> None:
    log = ServingLog(RequestTable([0.0, 1.0, 2.0], [4, 4, 4], [1, 1, 1]))
    log.finished_s[0] = 1.5
    log.rejected[1] = "too long"
    log.caches[0] = PagedKVCache(4, 16)
    again = pickle.loads(pickle.dumps(log))
    assert dict(again.rows()) == dict(log.rows())
    rows = {name: list(column) for name, column in again.rows().items()}
    assert json.loads(json.dumps(rows))["state"] == ["completed", "rejected", "in flight"]
    assert rows["reason"] == ["", "too long", ""]


def test_rows_say_whose_requests_they_are_where_the_workload_does() -> None:
    plain = RequestTable([0.0, 1.0], [4, 4], [1, 1])
    assert not {"priority", "tenant", "session", "turn"} & ServingLog(plain).rows().keys()
    table = replace(plain, priority=[2, 0], tenant=[1, 0], tenant_names=("free", "paid"), session=[0, 0], turn=[0, 1])
    rows = ServingLog(table).rows()
    assert list(rows["tenant"]) == ["paid", "free"]
    assert (rows["priority"], rows["session"], rows["turn"]) == ([2, 0], [0, 0], [0, 1])
    assert list(ServingLog(replace(table, tenant_names=())).rows()["tenant"]) == ["1", "0"]


def test_rows_of_retries_are_those_that_were_sent_with_the_number_of_their_request() -> None:
    table = with_attempts(RequestTable([0.0, 1.0], [4, 5], [1, 1]), 2, [1.0] * 4)
    log = ServingLog(table)
    for row, time_s in ((0, 0.0), (3, 1.0), (4, 2.5)):
        log.arrival_s[row] = time_s
    log.finished_s[0] = log.finished_s[4] = 3.0
    log.cancelled[3] = Cancelled("too late", 5, 0, 1.5, waiting=False)
    rows = log.rows()
    assert (rows["request"], rows["attempt"], rows["prompt_tokens"]) == ([0, 1, 1], [0, 0, 1], [4, 5, 5])
    assert (rows["state"], rows["reason"]) == (["completed", "cancelled", "completed"], ["", "too late", ""])
    assert log.in_flight == []
    figures = serving_metrics(log, {})
    assert {name: figures[name] for name in ("cancelled", "wasted_tokens", "retries", "answered_share")} == {
        **{"cancelled": 1, "wasted_tokens": 5, "retries": 1, "answered_share": 1.0}
    }
    assert figures["cancelled_by_reason"] == {"too late": 1}


def test_arrivals_are_those_of_the_table_unless_requests_follow_others() -> None:
    table = RequestTable([0.0, 1.0], [4, 4], [1, 1])
    assert ServingLog(table).arrival_s is table.arrival_s
    log = ServingLog(replace(table, concurrency=1))
    assert log.rows()["arrival_s"] == [None, None]
    log.arrival_s[1] = 7.0
    assert log.rows()["arrival_s"] == [None, 7.0]
    assert table.arrival_s == [0.0, 1.0], "the workload stays as it was"


def test_a_log_has_ended_with_its_last_request_or_step() -> None:
    log = ServingLog(RequestTable([0.0], [4], [1]))
    assert log.ended_s == 0.0
    log.finished_s[0] = 2.0
    assert log.ended_s == 2.0
    log.steps.add(0, [2.0, 1, 0, 4, 1.0, 0.0])
    assert log.ended_s == 3.0


def test_runs_of_steps_are_read_back_as_they_were_told() -> None:
    log = StepLog()
    log.add(3, [2.0, 1, 7, 512, 0.5, 0.0])
    log.add(0, [0.0, 10, 7, 0, 0.25, 0.125])
    log.add(3, [2.5, 1, 0, 2048, 1.0, 0.0])
    assert len(log) == 3
    assert log.ranks == [0, 3]
    assert log.columns() == {
        "rank": [0, 3, 3],
        "started_s": [0.0, 2.0, 2.5],
        "steps": [10, 1, 1],
        "first_step_s": [0.25, 0.5, 1.0],
        "last_step_s": [1.375, 0.5, 1.0],
        "decode_tokens": [7, 7, 0],
        "prompt_tokens": [0, 512, 2048],
    }


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_steps_of_a_run_follow_one_another(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations of 1, 2, 3 and 4 s from 10 s on, and a step alone."""
    monkeypatch.setattr("simsys.metrics.step_log.BLOCK", block)
    log = StepLog()
    log.add(0, [10.0, 4, 5, 0, 1.0, 1.0, 20.0, 1, 5, 0, 1.0, 0.0])
    parts = list(log.blocks())
    assert np.concatenate([runs.ended_s for runs in parts]).tolist() == [20.0, 21.0]
    assert np.concatenate([runs.last_s for runs in parts]).tolist() == [4.0, 1.0]
    assert [runs.start for runs in parts] == list(range(0, 2, block))
    first = np.zeros(4, dtype=np.int64)
    assert parts[0].ends_s(np.arange(1, 5), first).tolist() == [11.0, 13.0, 16.0, 20.0]
    assert log.ended_s == 21.0
