"""What is due at known times happens in order, beside SimPy's own events, and costs none of them when alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy.events import NORMAL, URGENT

from simsys.platform.agenda import Later
from simsys.platform.environment import Environment
from simsys.platform.events import AFTERWARDS, LATE, boundary, waking
from tests.helpers.thorough import cases

Log = list[tuple[float, Any]]


class Entry:
    """Happens at given times, one after another; writes its name down."""

    def __init__(self, env: Environment, log: Log, name: str, times_s: list[float], priority: int = URGENT) -> None:
        self.env, self.log, self.name, self.times_s, self.priority = env, log, name, times_s, priority
        self.due_s = times_s.pop(0) if times_s else inf
        self.moved = env.agenda.add(self)

    def happen(self) -> float:
        assert self.env.now == self.due_s
        assert self.env.priority == self.priority
        self.log.append((self.env.now, self.name))
        self.due_s = self.times_s.pop(0) if self.times_s else inf
        return self.due_s


def ticks(env: Environment, log: Log, name: str, delays_s: list[float]) -> Iterator[Any]:
    for delay_s in delays_s:
        yield env.timeout(delay_s)
        log.append((env.now, name))


def test_entries_happen_in_order_of_time_in_a_single_event() -> None:
    env, log = Environment(), Log()
    Entry(env, log, "a", [0.0, 2.0, 5.0])
    Entry(env, log, "b", [1.0, 3.0, 4.0])
    env.run()
    assert log == [(0.0, "a"), (1.0, "b"), (2.0, "a"), (3.0, "b"), (4.0, "b"), (5.0, "a")]
    assert env.now == 5.0
    assert env.events_scheduled == 1, "its process begins"


def test_entries_of_one_moment_happen_in_order_of_their_priorities() -> None:
    priorities = {
        "arrival": URGENT,
        "first rank": boundary(0),
        "next rank": boundary(1),
        "follows": AFTERWARDS,
        "wakes": waking(0),
        "wakes next": waking(1),
    }
    assert list(priorities.values()) == sorted(priorities.values())
    assert boundary(0) > LATE > NORMAL
    names = list(priorities)
    for seed in range(20):
        env, log = Environment(), Log()
        for name in random.Random(seed).sample(names, len(names)):
            Entry(env, log, name, [1.0, 2.0], int(priorities[name]))
        env.run()
        assert [name for _, name in log] == names * 2


def test_entries_of_one_moment_and_priority_happen_in_the_order_in_which_they_were_added() -> None:
    env, log = Environment(), Log()
    for name in "cab":
        Entry(env, log, name, [1.0, 1.0, 2.0])
    env.run()
    assert "".join(name for _, name in log) == "ccaabbcab"


def test_what_is_due_at_another_time_does_not_happen_at_the_old_one() -> None:
    env, log = Environment(), Log()
    moving = Entry(env, log, "moving", [5.0])

    def move_to(time_s: float, **more: Any) -> Callable[[Any], None]:
        def move(_: Any) -> None:
            moving.due_s = time_s
            moving.priority = more.get("priority", moving.priority)
            moving.moved()

        return move

    env.at(1.0, move_to(3.0))
    env.at(2.0, move_to(4.0))
    env.at(2.5, move_to(4.0, priority=int(LATE)))
    env.run()
    assert log == [(4.0, "moving")]


@pytest.mark.parametrize("others", [[], [0.5, 0.5, 9.0]])
def test_an_entry_may_move_while_the_agenda_sleeps(others: list[float]) -> None:
    """It waits for other events, or has nothing to do; the entry becomes due earlier, later, at once or never."""
    env, log = Environment(), Log()
    entry = Entry(env, log, "entry", [8.0])
    env.process(ticks(env, log, "tick", others))

    def move(time_s: float) -> None:
        entry.due_s = time_s
        entry.moved()

    env.at(1.5, lambda _: move(3.0))
    env.at(2.0, lambda _: move(6.0))
    env.at(4.0, lambda _: move(4.0))
    env.at(5.0, lambda _: move(7.0))
    env.at(5.5, lambda _: move(inf))
    env.run()
    assert [each for each in log if each[1] == "entry"] == [(4.0, "entry")]


def test_the_clock_does_not_go_on_for_the_sake_of_what_was_due_once() -> None:
    env, log = Environment(), Log()
    entry = Entry(env, log, "entry", [100.0])

    def hasten(_: Any) -> None:
        entry.due_s = 2.0
        entry.moved()

    env.at(1.0, hasten)
    env.run()
    assert log == [(2.0, "entry")]
    assert env.now == 2.0


def test_what_an_entry_lets_others_do_happens_in_between() -> None:
    env, log = Environment(), Log()
    other = Entry(env, log, "other", [])

    class Waking(Entry):
        def happen(self) -> float:
            following_s = super().happen()
            other.due_s = self.env.now + 0.25
            other.moved()
            return following_s

    Waking(env, log, "waking", [1.0, 2.0])
    env.run()
    assert log == [(1.0, "waking"), (1.25, "other"), (2.0, "waking"), (2.25, "other")]


def test_an_entry_may_be_added_by_another_one_and_while_the_agenda_sleeps() -> None:
    env, log = Environment(), Log()

    class Adding(Entry):
        def happen(self) -> float:
            Entry(self.env, log, "added", [self.env.now, self.env.now + 0.5])
            return super().happen()

    Adding(env, log, "adding", [1.0])
    env.at(3.0, lambda _: Entry(env, log, "late", [3.0, 3.5]) and None)
    env.run()
    assert log == [(1.0, "adding"), (1.0, "added"), (1.5, "added"), (3.0, "late"), (3.5, "late")]


# --- beside SimPy's own events ------------------------------------------------------------------------------------


def test_of_one_moment_other_events_come_first_or_later_by_their_priority() -> None:
    env, log = Environment(), Log()
    for name, priority in (("urgent", URGENT), ("normal", NORMAL), ("late", int(LATE))):
        Entry(env, log, name, [1.0], priority)
    env.process(ticks(env, log, "timeout", [1.0]))
    env.run()
    assert [name for _, name in log] == ["urgent", "timeout", "normal", "late"]


class Naive:
    """What an entry is without an agenda: an event of SimPy for every time."""

    def __init__(self, env: Environment, log: Log, name: str, times_s: list[float], priority: int) -> None:
        self.env, self.log, self.name, self.times_s, self.priority = env, log, name, times_s, priority
        self.arm()

    def arm(self) -> None:
        if self.times_s:
            event = self.env.event()
            event.callbacks.append(self.happen)
            self.env.fire_at(self.times_s.pop(0), event, priority=self.priority)  # type: ignore[arg-type]

    def happen(self, _: Any) -> None:
        self.log.append((self.env.now, self.name))
        self.arm()


@settings(max_examples=cases(400), deadline=None)
@given(
    entries=st.lists(st.lists(st.integers(0, 12), max_size=6), min_size=1, max_size=4),
    others=st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=3),
    pauses=st.lists(st.integers(1, 12), max_size=3, unique=True),
)
def test_entries_happen_as_if_each_time_were_an_event(
    entries: list[list[int]], others: list[list[int]], pauses: list[int]
) -> None:
    """Whole numbers of seconds, so that many fall on one moment; entries have priorities of their own."""
    logs = []
    for kind in (Entry, Naive):
        env, log = Environment(), Log()
        for number, times_s in enumerate(entries):
            kind(env, log, f"entry {number}", sorted(map(float, times_s)), int(boundary(number)))
        for number, delays_s in enumerate(others):
            env.process(ticks(env, log, f"process {number}", list(map(float, delays_s))))
        for time_s in sorted(pauses):
            env.run(until=time_s)
            assert env.now == time_s
            assert all(time < time_s for time, _ in log), "what is due then comes after the pause"
        env.run()
        logs.append(log)
    assert logs[0] == logs[1]


def test_a_run_may_end_at_a_time_and_go_on() -> None:
    env, log = Environment(), Log()
    Entry(env, log, "entry", [1.0, 2.0, 3.0])
    env.run(until=2.0)
    assert (env.now, log) == (2.0, [(1.0, "entry")])
    env.run(until=2.5)
    assert (env.now, log) == (2.5, [(1.0, "entry"), (2.0, "entry")])
    env.run()
    assert log[-1] == (3.0, "entry")


def test_a_run_may_end_with_an_event_that_an_entry_lets_happen() -> None:
    env, log = Environment(), Log()
    done = env.event()

    class Ending(Entry):
        def happen(self) -> float:
            if self.env.now == 2.0:
                done.succeed("value")
            return super().happen()

    Ending(env, log, "entry", [1.0, 2.0, 3.0])
    assert env.run(until=done) == "value"
    assert (env.now, log[-1]) == (2.0, (2.0, "entry"))
    env.run()
    assert log[-1] == (3.0, "entry")


def test_it_may_be_stepped_through() -> None:
    env, log = Environment(), Log()
    Entry(env, log, "entry", [1.0, 4.0])
    env.process(ticks(env, log, "tick", [2.0, 1.0]))
    while env.peek() < inf:
        env.step()
    assert log == [(1.0, "entry"), (2.0, "tick"), (3.0, "tick"), (4.0, "entry")]


def test_what_an_entry_raises_ends_the_run() -> None:
    env = Environment()

    class Failing(Entry):
        def happen(self) -> float:
            raise ZeroDivisionError("planted")

    Failing(env, Log(), "entry", [1.0])
    with pytest.raises(ZeroDivisionError, match="planted"):
        env.run()
    assert env.now == 1.0


# --- later --------------------------------------------------------------------------------------------------------


def test_later_calls_back_in_order_of_time_and_then_of_asking() -> None:
    env = Environment()
    later, log = Later(env.agenda, int(AFTERWARDS)), list[tuple[float, int]]()
    for time_s, argument in ((3.0, 1), (1.0, 2), (3.0, 3), (2.0, 4), (1.0, 5)):
        later.call(time_s, lambda argument: log.append((env.now, argument)), argument)
    env.run()
    assert log == [(1.0, 2), (1.0, 5), (2.0, 4), (3.0, 1), (3.0, 3)]


def test_later_may_be_asked_from_a_callback_and_while_the_agenda_sleeps() -> None:
    env = Environment()
    later, log = Later(env.agenda, int(AFTERWARDS)), list[tuple[float, int]]()

    def again(argument: int) -> None:
        log.append((env.now, argument))
        if argument < 3:
            later.call(env.now, again, argument + 1)
            later.call(env.now + 1.0, again, argument + 10)

    later.call(1.0, again, 1)
    env.at(5.0, lambda _: later.call(6.0, again, 99))
    env.at(5.5, lambda _: later.call(5.75, again, 98))
    env.run()
    assert log == [(1.0, 1), (1.0, 2), (1.0, 3), (2.0, 11), (2.0, 12), (5.75, 98), (6.0, 99)]
