"""Requests arrive when they should: at their times, after others have ended, or when fewer are under way."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.platform.environment import Environment
from simsys.probes import Probe, Probes
from simsys.serving.requests import RequestTable
from simsys.serving.source import Source


class Log(Probe):
    def __init__(self) -> None:
        self.arrived: list[tuple[int, float]] = []

    def request_arrived(self, request: int, now_s: float) -> None:
        self.arrived.append((request, now_s))


class Server:
    """Serves every request at once, each for a second; refuses some."""

    def __init__(self, env: Environment, refused: tuple[int, ...] = ()) -> None:
        self.env, self.refused = env, refused
        self.on_end: Any = None
        self.replicas, self.sheds = [self], False
        self.got: list[int] = []

    def route(self, request: int) -> Any:
        return self

    def submit(self, request: int) -> None:
        self.got.append(request)
        if request in self.refused:
            self.ended(request)
        else:
            self.env.at(self.env.now + 1.0, lambda _: self.ended(request))

    def ended(self, request: int) -> None:
        if self.on_end is not None:
            self.on_end(request)


def arrivals(requests: RequestTable, refused: tuple[int, ...] = ()) -> tuple[list[tuple[int, float]], Environment]:
    env, log = Environment(), Log()
    server: Any = Server(env, refused)
    Source(env, requests, server, Probes([log]))
    env.run()
    assert server.got == [request for request, _ in log.arrived]
    return log.arrived, env


def table(arrival_s: list[float], **columns: Any) -> RequestTable:
    return RequestTable(arrival_s, [4] * len(arrival_s), [2] * len(arrival_s), **columns)


def test_requests_arrive_at_their_times_and_in_order() -> None:
    assert arrivals(table([0.0, 1.0, 1.0, 2.5]))[0] == [(0, 0.0), (1, 1.0), (2, 1.0), (3, 2.5)]
    assert arrivals(table([]))[0] == []


def test_arrivals_at_one_moment_cost_one_event() -> None:
    services, all_have_ended = 50, 1
    assert arrivals(table([1.0] * 50))[1].events_scheduled == 1 + services + all_have_ended


def test_a_turn_arrives_after_the_one_before_has_ended_and_some_thought() -> None:
    requests = table([0.0, 0.0, 0.0, 5.0], after=[-1, 0, 1, 1], think_s=[0.0, 0.5, 0.0, 0.25])
    # 0 ends at 1 s, 1 at 2.5 s; 2 follows at once, 3 not before its own time
    assert arrivals(requests)[0] == [(0, 0.0), (1, 1.5), (2, 2.5), (3, 5.0)]


def test_without_think_times_a_turn_arrives_at_once() -> None:
    assert arrivals(table([0.0, 0.0], after=[-1, 0]))[0] == [(0, 0.0), (1, 1.0)]


def test_only_so_many_are_under_way_at_once() -> None:
    requests = table([0.0, 0.0, 0.0, 0.0, 9.0], concurrency=2)
    assert arrivals(requests)[0] == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (4, 9.0)]


@pytest.mark.parametrize("columns", [{"after": [-1, 0, 1]}, {"concurrency": 1}])
def test_a_refused_request_holds_nobody_up(columns: dict[str, Any]) -> None:
    assert arrivals(table([0.0, 0.0, 0.0], **columns), refused=(0, 1))[0] == [(0, 0.0), (1, 0.0), (2, 0.0)]


def test_a_chain_of_thousands_of_refusals_is_no_recursion() -> None:
    count = 5_000
    after = [place - 1 for place in range(count)]
    assert len(arrivals(table([0.0] * count, after=after), refused=tuple(range(count)))[0]) == count
    assert len(arrivals(table([0.0] * count, concurrency=1), refused=tuple(range(count)))[0]) == count
