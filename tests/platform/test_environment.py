"""The environment behaves as SimPy's own, event by event, and adds events at absolute times."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import simpy

from simsys.platform.environment import Environment
from tests.helpers.each_case import each_case

Trace = list[tuple[Any, ...]]


class RandomProgram:
    """Processes that wait, interrupt each other, signal, spawn and fail, all decided by a seed; logs what happens.

    Delays are small whole numbers, so that many events fall on the same instant and their order shows.
    """

    def __init__(self, env: simpy.Environment, seed: int) -> None:
        self.env, self.rng, self.trace = env, random.Random(seed), []
        self.trace: Trace
        self.signals = [env.event() for _ in range(6)]
        self.processes: list[simpy.Process] = []
        for _ in range(5):
            self.spawn(depth=0)

    def spawn(self, depth: int) -> simpy.Process:
        process = self.env.process(self.live(len(self.processes), depth))
        self.processes.append(process)
        return process

    def live(self, me: int, depth: int) -> Iterator[Any]:
        for step in range(self.rng.randint(1, 6)):
            try:
                result = yield self.choose(depth)
                if isinstance(result, simpy.events.ConditionValue):
                    result = len(result.todict())
                self.trace.append((self.env.now, me, step, "went on", result))
            except simpy.Interrupt as interrupt:
                self.trace.append((self.env.now, me, step, "interrupted", interrupt.cause))
            except RuntimeError as error:
                self.trace.append((self.env.now, me, step, "failed", str(error)))
            self.act(me)
        if self.rng.random() < 0.15 and depth:
            raise RuntimeError(f"process {me} gives up")
        return me

    def choose(self, depth: int) -> simpy.Event:
        kind = self.rng.randrange(7 if depth < 3 else 5)
        if kind < 2:
            return self.env.timeout(self.rng.randint(0, 3), value=kind)
        if kind == 2:
            return self.env.timeout(1) | self.rng.choice(self.signals)
        if kind == 3:
            return self.env.all_of([self.env.timeout(self.rng.randint(0, 2)) for _ in range(3)])
        if kind == 4:
            return self.env.any_of([self.rng.choice(self.signals), self.env.timeout(2)])
        return self.spawn(depth + 1)

    def act(self, me: int) -> None:
        signal = self.rng.choice(self.signals)
        if self.rng.random() < 0.3 and not signal.triggered:
            signal.succeed(me)
        other = self.rng.choice(self.processes)
        if self.rng.random() < 0.3 and other.is_alive and other is not self.env.active_process:
            other.interrupt(cause=me)


def outcome(make: Callable[[], simpy.Environment], seed: int, until: float | None = None) -> tuple[Trace, Any, float]:
    """The trace of a program, how its run ended, and when."""
    env = make()
    program = RandomProgram(env, seed)
    ended: Any = None
    try:
        env.run(until)
    except RuntimeError as error:
        ended = str(error)
    return program.trace, ended, env.now


@pytest.mark.parametrize("until", [None, 2, 3.5])
@each_case("seed", range(40))
def test_random_programs_do_the_same_in_the_same_order_as_in_simpy(seed: int, until: float | None) -> None:
    ours = outcome(Environment, seed, until)
    assert ours == outcome(simpy.Environment, seed, until)
    assert ours[0]


def test_the_random_programs_do_interrupt_wait_spawn_and_fail() -> None:
    runs = [outcome(Environment, seed) for seed in range(40)]
    happened = {entry[3] for trace, _, _ in runs for entry in trace}
    assert happened == {"went on", "interrupted", "failed"}
    assert {type(ended) for _, ended, _ in runs} == {str, type(None)}  # some runs end by an error, some do not


@pytest.mark.parametrize("make", [simpy.Environment, Environment])
class TestRun:
    """The rules of `run`, which must hold for SimPy's environment and ours alike."""

    def test_until_a_time_stops_before_the_events_of_that_time(self, make: Callable[[], simpy.Environment]) -> None:
        env, seen = make(), []
        for delay in (1, 2, 3):
            env.timeout(delay).callbacks.append(lambda _: seen.append(env.now))
        assert env.run(until=2) is None
        assert (seen, env.now) == ([1], 2)
        env.run()
        assert seen == [1, 2, 3]

    def test_until_a_time_after_the_last_event_moves_the_clock(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()
        env.timeout(1)
        env.run(until=10.0)
        assert env.now == 10.0

    def test_until_an_event_returns_its_value(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()
        env.timeout(5)
        assert env.run(env.timeout(2, value="done")) == "done"
        assert env.now == 2

    def test_until_an_event_that_has_happened_returns_at_once(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()
        event = env.timeout(1, value=7)
        env.run()
        assert env.run(event) == 7

    def test_until_a_process_that_fails_raises_its_error(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()

        def fail() -> Iterator[Any]:
            yield env.timeout(1)
            raise KeyError("gone")

        with pytest.raises(KeyError, match="gone"):
            env.run(env.process(fail()))

    def test_until_an_event_that_never_happens_is_an_error(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()
        env.timeout(1)
        with pytest.raises(RuntimeError, match=r"(?i)no .*events left"):
            env.run(env.event())

    @pytest.mark.parametrize("until", [1, 0.5, -1])
    def test_until_the_past_is_an_error(self, make: Callable[[], simpy.Environment], until: float) -> None:
        env = make()
        env.run(until=1)
        with pytest.raises(ValueError, match="until"):
            env.run(until=until)

    def test_an_error_nobody_catches_ends_the_run_and_the_rest_can_go_on(
        self, make: Callable[[], simpy.Environment]
    ) -> None:
        env = make()
        env.timeout(1).callbacks.append(lambda _: env.event().fail(OSError("broken")))
        env.timeout(2)
        with pytest.raises(OSError, match="broken"):
            env.run()
        assert env.now == 1
        env.run()
        assert env.now == 2

    def test_a_defused_failure_is_no_error(self, make: Callable[[], simpy.Environment]) -> None:
        env = make()
        event = env.event().fail(OSError("broken"))
        event.defused = True
        env.run()
        assert not event.ok


def test_an_event_at_an_absolute_time_is_not_rounded() -> None:
    start_s, time_s = 0.2, 0.9
    assert start_s + (time_s - start_s) != time_s  # what a timeout would make of it
    env = Environment(start_s)
    env.run(env.at(time_s))
    assert env.now == time_s


def test_the_callback_of_an_absolute_time_comes_before_whoever_waits() -> None:
    env, order = Environment(), []
    event = env.at(1.0, lambda _: order.append("callback"))

    def wait() -> Iterator[Any]:
        yield event
        order.append("process")

    env.process(wait())
    env.run()
    assert order == ["callback", "process"]


def test_absolute_and_relative_events_of_one_instant_keep_their_order() -> None:
    env, order = Environment(), []
    env.timeout(1.0).callbacks.append(lambda _: order.append("first"))
    env.at(1.0, lambda _: order.append("second"))
    env.timeout(1.0).callbacks.append(lambda _: order.append("third"))
    env.run()
    assert order == ["first", "second", "third"]


def test_an_own_event_can_be_fired_at_an_absolute_time() -> None:
    env = Environment()
    event = env.event()
    env.fire_at(0.3, event)
    assert event.triggered
    assert not event.processed
    assert env.run(event) is None
    assert env.now == 0.3


def test_what_is_done_lets_a_process_go_on_at_once() -> None:
    env, times = Environment(5.0), []

    def go() -> Iterator[Any]:
        for _ in range(3):
            yield env.done
            times.append(env.now)

    env.process(go())
    env.run()
    assert times == [5.0, 5.0, 5.0]
    assert env.done.processed


def test_counting_events_costs_none() -> None:
    env = Environment()
    assert env.events_scheduled == env.events_scheduled == 0
    env.timeout(1)
    env.at(2.0)
    env.fire_at(3.0, env.event())
    assert env.events_scheduled == 3
    env.run(until=10)  # its stop is one more
    assert env.events_scheduled == 4
