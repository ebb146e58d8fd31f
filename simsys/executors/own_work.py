"""Computations of ranks on GPUs that user processes request, too: delayed operations and their times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import simpy
from simpy.events import Event

from simsys.errors import UsageError
from simsys.ops import Allocate, Collective, Forward, HostWork, Pipelined, Release, Send
from simsys.platform.device import Device
from simsys.platform.server import CalendarServer
from simsys.platform.turns import Sharing, TurnServer

NOT_DECLARED = "executors run ahead of the clock; call share() of the platform before the executor is built"
SERVING = "engines of LLM serving carry out their steps without queueing for their GPUs, which cannot be requested"
SERVING_AHEAD = (
    "at lod: medium, engines of LLM serving carry out steps and collectives ahead of the clock, so GPUs and links "
    "cannot be requested; at lod: high, links can"
)
NOT_STEPWISE = "this executor leaves the queues of GPUs or links out; on a platform that is shared, use another one"

_IN_ORDER: tuple[type, ...] = (Collective, Send, HostWork, Allocate, Release)
_SERVING: tuple[type, ...] = (Forward, Pipelined)

Handlers = dict[type, Callable[[Any], Event]]


class OwnWork:
    """Keeps the operations of each rank in order while a computation of the rank waits behind a request.

    The end of such a computation is unknown, and so are the start times of later operations.

    Args:
        env: The environment.
        sharing: Sharing of the platform.
        ranks: Number of ranks.
    """

    def __init__(self, env: simpy.Environment, sharing: Sharing, ranks: int) -> None:
        self._env, self._sharing = env, sharing
        self.fronts: Sequence[CalendarServer] = [CalendarServer() for _ in range(ranks)]
        """By rank, when its own computations end, as known so far."""
        self._held: list[deque[list[Callable[[], object]]]] = [deque() for _ in range(ranks)]

    def submitted(self, rank: int) -> None:
        """A computation queues for the GPU of a rank; `begun` follows, maybe at once."""
        self._held[rank].append([])

    def begun(self, rank: int, end_s: float) -> None:
        """The first pending computation of a rank is on the calendar now; run the callbacks that wait for it."""
        self.fronts[rank].free_at_s = end_s
        for action in self._held[rank].popleft():
            action()

    def waits(self, rank: int) -> bool:
        """Whether a computation of a rank has not begun."""
        return bool(self._held[rank])

    def after(self, rank: int, action: Callable[[], Event]) -> Event:
        """Do something once the computations of a rank issued so far have begun; return an event for its end."""
        if not self._held[rank]:
            return action()
        ended = Event(self._env)
        self._held[rank][-1].append(lambda: _pass_on(action(), ended))
        return ended

    def all_begun(self, rank: int) -> Event | None:
        """An event that fires when all computations of a rank have begun; none if they have."""
        if not self._held[rank]:
            return None
        event = Event(self._env)
        self._held[rank][-1].append(event.succeed)
        return event

    def do_after(self, rank: int, action: Callable[[], object]) -> None:
        """Call a function once the computations of a rank issued so far have begun."""
        if self._held[rank]:
            self._held[rank][-1].append(action)
        else:
            action()

    def ordered(self, handlers: Handlers) -> Handlers:
        """The function that starts operations in the order of their rank, with engines that refuse requests."""
        found = dict(handlers)
        for kind in _IN_ORDER:
            found[kind] = self._in_order(handlers[kind])
        for passing in _SERVING:
            found[passing] = self._refusing(handlers[passing])
        return found

    def refuse(self, kind: type[TurnServer], text: str) -> None:
        """Let servers of a kind refuse requests from now on."""
        self._sharing.refusals[kind] = text

    def _in_order(self, handler: Callable[[Any], Event]) -> Callable[[Any], Event]:
        def start(op: Any) -> Event:
            return self.after(op.rank, lambda: handler(op))

        return start

    def _refusing(self, handler: Callable[[Any], Event]) -> Callable[[Any], Event]:
        def start(op: Any) -> Event:
            self.refuse(Device, SERVING)
            return handler(op)

        return start


def own_process(own: OwnWork, rank: int, steps: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
    """The process of a rank; it does not end before it is known when the computations of the rank end."""
    yield from steps
    event = own.all_begun(rank)
    if event is not None:
        yield event


def own_work(env: simpy.Environment, sharing: Sharing, ranks: int, *, stepwise: bool) -> OwnWork | None:
    """The own work of ranks if requests were declared; otherwise, requests are refused from now on.

    Raises:
        UsageError: If they were declared, and the executor does not support queues.
    """
    if not sharing.declared:
        sharing.refusals[TurnServer] = NOT_DECLARED
        return None
    if not stepwise:
        raise UsageError(NOT_STEPWISE)
    return OwnWork(env, sharing, ranks)


def _succeed_with(ended: Event, event: Event) -> None:
    ended.succeed(event.value)


def _pass_on(event: Event, ended: Event) -> None:
    """Let an event fire when another one does, with its value."""
    if event.callbacks is None:
        ended.succeed(event.value)
    else:
        event.callbacks.append(partial(_succeed_with, ended))
