"""Servers that any SimPy process can request, in one queue with the work of simsys.

Work of known duration is put on a calendar (`CalendarServer`). A request has no known duration: it is held until
its release. So a request waits for the work on the calendar, and later work queues until the release. Times
equal those of a `simpy.Resource` of capacity 1 on which everything queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import simpy
from simpy.events import Event

from simsys.errors import UsageError
from simsys.platform.events import At
from simsys.platform.server import CalendarServer

Work = Callable[[], None]
"""Puts work on the calendar of its server, in its turn."""


class Sharing:
    """Whether the processes of a user may request the servers of a platform.

    Args:
        env: The environment.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.declared = False
        """Whether requests by processes of the user have been announced."""
        self.refusals: dict[type, str] = {}
        """The reasons why servers of a class cannot be requested."""


class Request(Event):
    """A turn at a server, which fires when the turn comes; a context manager that gives the turn back.

    Args:
        server: The server.
        env: The environment.
    """

    def __init__(self, server: TurnServer, env: simpy.Environment) -> None:
        super().__init__(env)
        self.server = server
        self.awaited = False
        """Whether the work before it is on the calendar, so that it is known when its turn comes."""
        self.granted_s = 0.0
        """The time when its turn came; set then."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not GeneratorExit:  # as in SimPy: a process that is thrown away gives nothing back
            self.server.release(self)

    def cancel(self) -> None:
        """Give the turn back, or leave the queue if it has not come."""
        self.server.release(self)


_NO_TURNS: deque[Request | Work] = deque()
"""The turns of every unrequested server, since a deque uses more memory than the rest of a server."""


class TurnServer(CalendarServer):
    """A calendar with turns for processes of the user's own: first come, first served, one at a time."""

    __slots__ = ("sharing", "turns")

    def __init__(self) -> None:
        super().__init__()
        self.sharing: Sharing | None = None
        """Shared by the platform; a server without it, such as a copy, cannot be requested."""
        self.turns = _NO_TURNS
        """The current or next request, and later arrivals, in order."""

    def request(self) -> Request:
        """Queue for the server, after all earlier work.

        Returns:
            An event that fires when the turn comes. The server is occupied until the `release`, or until the end of a
            ``with`` block: ``with server.request() as turn: yield turn; yield env.timeout(2.0)``.

        Raises:
            UsageError: If the users of the server run ahead of the clock.
        """
        sharing = self.sharing
        if sharing is None:
            raise UsageError("a server that belongs to no platform cannot be requested")
        if sharing.refusals:
            for kind, refusal in sharing.refusals.items():
                if isinstance(self, kind):
                    raise UsageError(refusal)
        self._settle()
        request = Request(self, sharing.env)
        if self.turns is _NO_TURNS:
            self.turns = deque()
        self.turns.append(request)
        if self.turns[0] is request:
            self._await(request)
        return request

    def release(self, request: Request) -> None:
        """Give a turn back, or leave the queue; a second call has no effect."""
        turns = self.turns
        if not turns or turns[0] is not request:
            if request in turns:
                turns.remove(request)
            return
        turns.popleft()
        if request.triggered:
            now = request.env._now
            self.busy_s += now - request.granted_s
            self.free_at_s = max(self.free_at_s, now)
        self._advance()

    def queue(self, work: Work) -> None:
        """Let `work` be put on the calendar behind the requests that have come before; at once if there is none."""
        if self.turns:
            self.turns.append(work)
        else:
            work()

    def busy_before(self, now_s: float) -> float:
        """As `CalendarServer.busy_before`; a turn that is not over yet counts up to now."""
        busy_s = super().busy_before(now_s)
        first = self.turns[0] if self.turns else None
        return busy_s + (now_s - first.granted_s) if isinstance(first, Request) and first.triggered else busy_s

    def _settle(self) -> None:
        """Put everything on the calendar that has begun by now."""

    def _advance(self) -> None:
        """Put work on the calendar up to the next request."""
        turns = self.turns
        while turns:
            first = turns[0]
            if isinstance(first, Request):
                if not first.awaited:
                    self._await(first)
                return
            turns.popleft()
            first()

    def _await(self, request: Request) -> None:
        """The request is the next: its turn comes when the calendar is free."""
        request.awaited = True
        env = request.env
        if self.free_at_s > env._now:
            At(env, self.free_at_s, lambda _: self._grant(request))
        else:
            self._grant(request)

    def _grant(self, request: Request) -> None:
        if self.turns and self.turns[0] is request:  # else it has left the queue
            request.granted_s = request.env._now
            request.succeed()
