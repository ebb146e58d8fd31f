"""Requests arrive when they should, in order, and those that can never be served are refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simsys.platform.environment import Environment
from simsys.probes import Probe, Probes
from simsys.serving.inbox import Inbox
from simsys.serving.requests import RequestTable
from simsys.serving.scheduler import Chunk


class Log(Probe):
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def request_admitted(self, request: int, now_s: float) -> None:
        self.heard.append(("admitted", request, now_s))

    def request_first_token(self, request: int, now_s: float) -> None:
        self.heard.append(("first token", request, now_s))

    def request_finished(self, request: int, now_s: float) -> None:
        self.heard.append(("finished", request, now_s))

    def request_preempted(self, request: int, now_s: float) -> None:
        self.heard.append(("preempted", request, now_s))

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        self.heard.append(("rejected", request, reason, now_s))

    def step(self, started_s: float, ended_s: float, decode_tokens: int, prompt_tokens: int) -> None:
        self.heard.append(("step", started_s, ended_s, decode_tokens, prompt_tokens))


def inbox(
    arrival_s: list[float], order: Sequence[int] | None = None, prompt: int = 4, **limits: int
) -> tuple[Environment, Inbox, Log]:
    env, log = Environment(), Log()
    requests = RequestTable(arrival_s, [prompt] * len(arrival_s), [2] * len(arrival_s))
    order = range(len(arrival_s)) if order is None else order
    given = {"capacity_tokens": 100, **limits}
    return env, Inbox(env, requests, Probes([log]), order=order, **given), log


def test_requests_arrive_at_their_times_and_in_order() -> None:
    env, box, _ = inbox([0.0, 1.0, 1.0, 2.5])
    seen = []
    for until in (0.5, 1.0000001, 3.0):
        env.run(until=until)
        seen.append(list(box.waiting))
    assert seen == [[0], [0, 1, 2], [0, 1, 2, 3]]
    assert box.closed


def test_arrivals_at_one_moment_cost_one_event() -> None:
    env, box, _ = inbox([1.0] * 50)
    env.run()
    assert list(box.waiting) == list(range(50))
    assert env.events_scheduled == 1


def test_a_replica_gets_only_the_requests_routed_to_it() -> None:
    env, box, _ = inbox([0.0, 1.0, 2.0, 3.0], order=range(1, 4, 2))
    assert not box.closed
    env.run()
    assert list(box.waiting) == [1, 3]


def test_without_requests_it_is_closed_from_the_start() -> None:
    env, box, _ = inbox([], order=[])
    env.run()
    assert box.closed
    assert env.now == 0.0


def test_a_process_that_waits_for_an_arrival_goes_on_when_it_comes() -> None:
    env, box, _ = inbox([0.5, 2.0])
    woken = []

    def server() -> Any:
        while not box.closed:
            yield box.arrival()
            woken.append((env.now, list(box.waiting)))

    env.process(server())
    env.run()
    assert woken == [(0.5, [0]), (2.0, [0, 1])]


def test_a_request_longer_than_the_cache_is_rejected_on_arrival() -> None:
    # 4 prompt and 2 output tokens, of which the last is never cached
    assert inbox_after([1.0], capacity_tokens=5) == ([0], [])
    assert inbox_after([1.0], capacity_tokens=4) == (
        [],
        [("rejected", 0, "longer than the KV cache of 4 tokens", 1.0)],
    )


def test_a_request_longer_than_the_context_is_rejected_on_arrival() -> None:
    assert inbox_after([1.0], max_context_tokens=6) == ([0], [])
    waiting, heard = inbox_after([1.0], max_context_tokens=5)
    assert waiting == []
    assert heard == [("rejected", 0, "longer than the model's context of 5 tokens", 1.0)]


def inbox_after(arrival_s: list[float], **limits: int) -> tuple[list[int], list[tuple[Any, ...]]]:
    env, box, log = inbox(arrival_s, **limits)
    env.run()
    return list(box.waiting), log.heard


def test_a_rejected_request_wakes_the_server_so_that_it_can_end() -> None:
    env, box, _ = inbox([1.0], capacity_tokens=1)

    def server() -> Any:
        yield box.arrival()
        return env.now

    process = env.process(server())
    env.run()
    assert process.value == 1.0
    assert box.closed


def test_what_becomes_of_requests_is_told_to_the_probes() -> None:
    env, box, log = inbox([0.0])
    env.run(until=2.0)
    box.admitted(0)
    box.preempted(0)
    box.first_token(0)
    box.stepped(1.0, 2.0, 3, [Chunk(0, 4), Chunk(1, 2)])
    box.finished(0)
    assert log.heard == [
        ("admitted", 0, 2.0),
        ("preempted", 0, 2.0),
        ("first token", 0, 2.0),
        ("step", 1.0, 2.0, 3, 6),
        ("finished", 0, 2.0),
    ]
