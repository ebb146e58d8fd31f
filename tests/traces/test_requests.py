"""Phases of requests from what happens to them."""

from __future__ import annotations

import json

from simsys.traces import requests as of
from simsys.traces.requests import Phase, RequestLog


def log(*events: tuple[int, int, float]) -> RequestLog:
    made = RequestLog()
    made.events.extend(events)
    return made


SIMPLE = ((0, of.ARRIVED, 0.0), (0, of.ADMITTED, 1.0), (0, of.FIRST_TOKEN, 3.0), (0, of.FINISHED, 7.0))


def test_queue_prefill_decode() -> None:
    phases, ended = log(*SIMPLE).phases(9.0)[0]
    assert phases == [Phase("queue", 0.0, 1.0), Phase("prefill", 1.0, 3.0), Phase("decode", 3.0, 7.0)]
    assert ended


def test_a_preempted_request_waits_and_is_processed_again() -> None:
    again = ((0, of.PREEMPTED, 4.0), (0, of.ADMITTED, 5.0), (0, of.RESUMED, 6.0))
    phases, _ = log(*SIMPLE[:3], *again, SIMPLE[3]).phases(9.0)[0]
    assert [phase.name for phase in phases] == ["queue", "prefill", "decode", "queue", "prefill", "decode"]
    assert phases[-1] == Phase("decode", 6.0, 7.0)


def test_requests_that_do_not_end_are_cut_at_the_end_of_the_run() -> None:
    found = log(*SIMPLE[:2])
    assert found.phases(9.0)[0] == ([Phase("queue", 0.0, 1.0), Phase("prefill", 1.0, 9.0)], False)
    first = json.loads(next(found.slices(1, 9.0, ())))
    assert first["args"] == {"unfinished": True}


def test_slices_nest_and_name_tokens_and_reasons() -> None:
    found = log(*SIMPLE, (1, of.ARRIVED, 2.0), (1, of.REJECTED, 2.0))
    found.reasons[1] = 'too "long"'
    events = [json.loads(text) for text in found.slices(4, 9.0, [[10, 20], [30, 40]])]
    names = [(each["ph"], each["name"], each["ts"]) for each in events if each["id2"]["local"] == "0"]
    assert names[:4] == [("b", "request 0", 0.0), ("b", "queue", 0.0), ("e", "queue", 1e6), ("b", "prefill", 1e6)]
    assert names[-2:] == [("e", "decode", 7e6), ("e", "request 0", 7e6)]
    assert events[0]["args"] == {"prompt tokens": 10, "output tokens": 30}
    rejected = next(each for each in events if each["id2"]["local"] == "1")
    assert rejected["args"] == {"prompt tokens": 20, "output tokens": 40, "rejected": 'too "long"'}


def test_names_sort_as_numbers() -> None:
    events = [(request, of.ARRIVED, 0.0) for request in (9, 10)]
    names = [json.loads(text)["name"] for text in log(*events).slices(0, 1.0, ())]
    assert [name for name in names if "request" in name][::2] == ["request 09", "request 10"]


def test_counters_of_waiting_and_running_requests() -> None:
    texts = log(*SIMPLE, *((1, event, now_s) for _, event, now_s in SIMPLE)).counters(0, 9.0)
    found = [json.loads(text) for text in texts]
    waiting = [(each["ts"], each["args"]["waiting"]) for each in found if "waiting" in each["args"]]
    running = [(each["ts"], each["args"]["running"]) for each in found if "running" in each["args"]]
    assert waiting == [(0.0, 2), (1e6, 0)]
    assert running == [(1e6, 2), (7e6, 0)]
