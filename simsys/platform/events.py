"""Events at absolute times, in any SimPy environment, and the order of all that happens at one moment."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT, Event, EventPriority

Callback = Callable[[Event], None]

LATE = EventPriority(NORMAL + 1)
"""Priority after all other events of a moment, except events of serving."""


def boundary(rank: int) -> EventPriority:
    """Priority of the end of a step of the replica with this first rank; simultaneous ends are in order of ranks."""
    return EventPriority(LATE + 1 + rank)


AFTERWARDS = EventPriority(1 << 30)
"""Priority of the consequences of simultaneous ends of steps, after all of these ends."""


def waking(rank: int) -> EventPriority:
    """Priority of an idle engine's waking, by its rank: after all that follows from steps that end at its moment."""
    return EventPriority(AFTERWARDS + 1 + rank)


def fire_at(
    env: simpy.Environment, time_s: float, event: Event, value: Any = None, priority: EventPriority = NORMAL
) -> None:
    """Let an untriggered `event` of any SimPy environment succeed with a value at the absolute `time_s`."""
    event._ok, event._value = True, value
    heappush(env._queue, (time_s, priority, next(env._eid), event))


def withdraw(env: simpy.Environment, event: Event) -> None:
    """Cancel a scheduled event, so that it does not advance the clock; scans all events."""
    env._queue[:] = [entry for entry in env._queue if entry[3] is not event]
    heapify(env._queue)


def processed(env: simpy.Environment) -> Event:
    """A processed event: a process that yields it continues immediately."""
    event = Event(env)
    event.callbacks = None  # type: ignore[assignment]
    event._ok, event._value = True, None
    return event


class At(Event):
    """An event that succeeds at an absolute time.

    A `simpy.Timeout` takes a delay, and ``now + (t - now)`` need not equal ``t``; times from a calendar or a closed
    form must not be rounded twice.

    Args:
        env: The environment.
        time_s: When it fires; not before now.
        callback: Called when it fires, before any process that waits for it.
    """

    def __init__(self, env: simpy.Environment, time_s: float, callback: Callback | None = None) -> None:
        # Written out instead of Event.__init__ + schedule: this runs once per simulated operation.
        self.env = env
        self.callbacks = [] if callback is None else [callback]
        self._value = None
        self._ok = True
        heappush(env._queue, (time_s, NORMAL, next(env._eid), self))


class Recurring(Event):
    """A reusable event that fires each time it is armed.

    Args:
        env: The environment.
        action: Its callback.
        brief: True if the action neither waits nor advances time, so that a stepper running ahead may execute it
            inline.
    """

    def __init__(self, env: simpy.Environment, action: Callback, *, brief: bool = False) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.action, self.brief = action, brief
        self.actions: list[Callback] = [action]

    def arm(self, time_s: float, priority: EventPriority) -> None:
        """Let it fire at an absolute time, and at those for which it was armed before."""
        self.callbacks = self.actions
        heappush(self.env._queue, (time_s, priority, next(self.env._eid), self))


class Clock(simpy.Environment):
    """A SimPy environment that knows the priority of the event under way."""

    def __init__(self, initial_time: float = 0.0) -> None:
        super().__init__(initial_time)
        self.priority: int = URGENT
        """Priority of the current event."""
