"""Operations issued by one rank in order, some of which wait for events: a CUDA stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from simpy.events import Event

from simsys.platform.environment import Environment


class Issued:
    """An operation that has not begun.

    Args:
        op: The operation.
        ready_s: When it could begin at the earliest.
        ended: Fires when it has ended.
        blocked: Whether the event that it waits for has not fired yet.
    """

    __slots__ = ("blocked", "ended", "op", "ready_s")

    def __init__(self, op: Any, ready_s: float, ended: Event, *, blocked: bool) -> None:
        self.op, self.ready_s, self.ended, self.blocked = op, ready_s, ended, blocked


class Stream:
    """Operations of one rank that begin in the order of issue, independent of the events that each waits for.

    So they keep the order of the rank's program at every level of detail, also if it runs ahead of the clock.

    Args:
        env: The environment.
        begin: Begins an operation that is ready at a time; returns the event of its end.
    """

    def __init__(self, env: Environment, begin: Callable[[Any, float], Event]) -> None:
        self._env = env
        self._begin = begin
        self._issued: deque[Issued] = deque()

    @property
    def held_up(self) -> bool:
        """Whether an operation waits, and with it all that come later."""
        return bool(self._issued)

    @property
    def issued(self) -> int:
        """Number of operations that have not begun."""
        return len(self._issued)

    def issue(self, op: Any, ready_s: float, after: Event | None = None) -> Event:
        """Begin an operation as soon as all that were issued before have begun and `after` has fired.

        Args:
            op: The operation.
            ready_s: When the rank is ready for it.
            after: Another event that must have fired.

        Returns:
            An event that fires when it has ended.
        """
        blocked = after is not None and not after.processed
        if not blocked and not self._issued:
            return self._begin(op, ready_s)
        issued = Issued(op, ready_s, Event(self._env), blocked=blocked)
        self._issued.append(issued)
        if after is not None and blocked:
            after.callbacks.append(lambda _: self._release(issued))
        return issued.ended

    def _release(self, issued: Issued) -> None:
        """An awaited event has happened: begin all possible operations."""
        issued.blocked = False
        issued.ready_s = max(issued.ready_s, self._env._now)
        while self._issued and not self._issued[0].blocked:
            first = self._issued.popleft()
            _pass_on(self._begin(first.op, first.ready_s), first.ended)


def _pass_on(event: Event, ended: Event) -> None:
    def fire(_: Event) -> None:
        ended.succeed()

    event.callbacks.append(fire)
