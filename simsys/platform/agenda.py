"""One SimPy process for all entries with known times; an entry needs no event unless another event comes first.

Runs of serving steps and arrivals of requests come in millions, and each is known beforehand: when it is due and what
happens then. An `Agenda` keeps them in a heap of its own. Its process carries out the next entry and sets the clock,
and yields exactly if an event in SimPy's queue comes first. So together with other processes, under ``run(until=…)``
and with failures it is an ordinary process, and alone it needs no events at all.

Simultaneous entries happen in the order of their priorities, which are priorities of SimPy's events (`events.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Any, Protocol

from simpy.events import Event

from simsys.platform.events import Clock, withdraw

Key = list[Any]
"""Time, priority and number of an entry, whether the entry is still due then, and its `happen`.

It is a list, since the first key of the heap is used again."""


class Due(Protocol):
    """Something that happens again and again, each time at a known moment."""

    due_s: float
    """When it happens next; infinity if that is not known."""
    priority: int
    """Its place among simultaneous entries and events."""

    def happen(self) -> float:
        """Carry out the entry at its time, and set `due_s` anew.

        Returns:
            When it happens next with the same priority; infinity if that is not known, or if it has called the
            function that `Agenda.add` returned.
        """


class Agenda:
    """Carries out its entries in order of time.

    Args:
        env: The environment; the agenda sets its clock. One agenda serves all jobs in it.
    """

    def __init__(self, env: Clock) -> None:
        self._env = env
        self._heap: list[Key] = []
        self._next: list[Key | None] = []
        """By number, the place of the entry in the heap, if it has a time."""
        self._tick = Event(env)
        self._tick._ok, self._tick._value = True, None
        self._ticks = 0  # in SimPy's queue: those that were armed before something was due earlier stay there
        self._asleep, self._armed_for = False, (inf, 0)
        env.process(self._live())

    def add(self, entry: Due) -> Callable[[], None]:
        """Add an entry, which need not have a time yet.

        Returns:
            A function to call whenever the time of the entry changes outside of `Due.happen`, or its priority does.
        """
        number, happen, heap, following = len(self._next), entry.happen, self._heap, self._next
        following.append(None)

        def moved() -> None:
            key = following[number]
            if key is not None:
                key[3] = False
            due_s = entry.due_s
            if due_s < inf:
                following[number] = key = [due_s, entry.priority, number, True, happen]
                heappush(heap, key)
                if self._asleep and (due_s, entry.priority) < self._armed_for:
                    self._arm(due_s, entry.priority)
            else:
                following[number] = None

        moved()
        return moved

    def _arm(self, time_s: float, priority: int) -> None:
        """Wake the process at a given time at the latest."""
        env = self._env
        self._armed_for = time_s, priority
        self._ticks += 1
        heappush(env._queue, (time_s, priority, next(env._eid), self._tick))  # type: ignore[misc]

    def _live(self) -> Generator[Event, Any, None]:
        env, heap, following, tick = self._env, self._heap, self._next, self._tick
        queue, never = env._queue, inf
        while True:  # with `continue`: Python 3.11 specialises no loop whose rounds end with a condition
            if heap:
                key = heap[0]
                time_s, priority, number, current, happen = key
                if not current:
                    heappop(heap)
                    continue
                if not queue or (first := queue[0])[0] > time_s or (first[0] == time_s and first[1] > priority):
                    env._now, env.priority = time_s, priority
                    due_s = happen()
                    if due_s == never:
                        if key[3]:
                            key[3], following[number] = False, None
                    elif heap[0] is key:
                        key[0] = due_s
                        heapreplace(heap, key)
                    else:
                        key[3] = False
                        following[number] = later = [due_s, priority, number, True, happen]
                        heappush(heap, later)
                    continue
                if first[3] is tick:
                    heappop(queue)
                    self._ticks -= 1
                    continue
                self._arm(time_s, priority)
            elif self._ticks:  # nothing is due, so an old tick must not advance the clock
                withdraw(env, tick)
                self._ticks = 0
            self._asleep = True
            yield tick
            self._ticks -= 1
            self._asleep, self._armed_for = False, (inf, 0)
            tick.callbacks = []


class Later:
    """Callbacks at times that become known on the way, such as the end of a pause; all have one priority.

    Args:
        agenda: Carries them out.
        priority: Their place among what happens at the same moment.
    """

    def __init__(self, agenda: Agenda, priority: int) -> None:
        self.due_s, self.priority = inf, priority
        self._calls: list[tuple[float, int, Callable[[int], None], int]] = []
        self._count = 0
        self._moved = agenda.add(self)

    def call(self, time_s: float, callback: Callable[[int], None], argument: int) -> None:
        """Call `callback` with an argument at a time, after earlier calls for the same time."""
        self._count += 1
        heappush(self._calls, (time_s, self._count, callback, argument))
        if time_s < self.due_s:
            self.due_s = time_s
            self._moved()

    def happen(self) -> float:
        """The first of the callbacks is due."""
        _, _, callback, argument = heappop(self._calls)
        self.due_s = -inf  # other calls need not tell the agenda now
        callback(argument)
        self.due_s = self._calls[0][0] if self._calls else inf
        return self.due_s
