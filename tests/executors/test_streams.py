"""Streams: what a rank issues begins in that order, whatever each operation waits for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy.events import Event

from simsys.executors.streams import Stream
from simsys.platform.environment import Environment
from simsys.platform.events import At

SERVICE_S = 1.0


class Server:
    """Begins what a stream hands over, each operation when the one before has ended."""

    def __init__(self) -> None:
        self.env = Environment()
        self.begun: list[tuple[str, float]] = []
        self.free_at_s = 0.0
        self.stream = Stream(self.env, self.begin)

    def begin(self, op: str, ready_s: float) -> Event:
        start_s = max(ready_s, self.free_at_s)
        self.begun.append((op, start_s))
        self.free_at_s = start_s + SERVICE_S
        return At(self.env, self.free_at_s)


def test_what_waits_for_nothing_begins_at_once() -> None:
    server = Server()
    server.stream.issue("a", 0.5)
    server.stream.issue("b", 0.0)
    assert server.begun == [("a", 0.5), ("b", 1.5)]
    assert not server.stream.held_up


def test_an_event_that_has_fired_holds_nothing_up() -> None:
    server = Server()
    server.stream.issue("a", 2.0, server.env.done)
    assert server.begun == [("a", 2.0)]


def test_what_waits_holds_up_what_was_issued_later() -> None:
    server = Server()
    ends = [
        server.stream.issue("first", 1.0, At(server.env, 5.0)),
        server.stream.issue("ready", 2.0),
        server.stream.issue("earlier event", 0.0, At(server.env, 3.0)),
    ]
    assert server.stream.held_up
    ended_s: list[float] = []
    for end in ends:
        end.callbacks.append(lambda _: ended_s.append(server.env.now))
    server.env.run()
    assert server.begun == [("first", 5.0), ("ready", 6.0), ("earlier event", 7.0)]
    assert ended_s == [6.0, 7.0, 8.0]
    assert not server.stream.held_up


def test_the_rank_may_be_ready_later_than_the_event() -> None:
    server = Server()
    server.stream.issue("a", 9.0, At(server.env, 5.0))
    server.env.run()
    assert server.begun == [("a", 9.0)]


times = st.floats(0.0, 10.0)


@given(st.lists(st.tuples(times, st.none() | times), max_size=12))
def test_starts_follow_from_the_order_of_issue_alone(plan: Sequence[tuple[float, float | None]]) -> None:
    server = Server()
    for place, (ready_s, after_s) in enumerate(plan):
        server.stream.issue(str(place), ready_s, None if after_s is None else At(server.env, after_s))
    server.env.run()
    expected, free_s = [], 0.0
    for place, (ready_s, after_s) in enumerate(plan):
        start_s = max(ready_s, after_s or 0.0, free_s)
        expected.append((str(place), start_s))
        free_s = start_s + SERVICE_S
    assert [op for op, _ in server.begun] == [op for op, _ in expected]
    assert [start_s for _, start_s in server.begun] == pytest.approx([start_s for _, start_s in expected], rel=1e-12)
