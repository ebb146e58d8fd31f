"""Clients that give up: they cancel requests without an answer in time, and send some of them again."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from simsys.platform.environment import Environment
from simsys.platform.events import AFTERWARDS
from simsys.serving.engine import Engine
from simsys.serving.leaving import HAD_ENOUGH
from simsys.serving.requests import RequestTable

NO_FIRST_TOKEN, NO_ANSWER = "no first token within the client's time-out", "no answer within the client's time-out"
"""Reasons to cancel a request, after which it may be sent again."""


class Clients:
    """Cancels requests at the times at which their clients give up; an entry of the environment's agenda.

    A token that comes at the very moment of a time-out comes in time.

    Args:
        env: The environment.
        requests: All requests.
        engines: All engines on which a request may be.
    """

    def __init__(self, env: Environment, requests: RequestTable, engines: Sequence[Engine]) -> None:
        self._env, self._requests, self._engines = env, requests, engines
        self._routed: dict[int, Engine] = {}  # requests under way, by where they were sent
        self._patience: list[tuple[float, int, str]] = []  # a heap of times, requests and reasons
        self._happening = False
        self.due_s, self.priority = inf, int(AFTERWARDS)
        self._moved = env.agenda.add(self)

    def sent(self, request: int, engine: Engine, arrival_s: float) -> None:
        """A request reaches an engine; its client has sent it at `arrival_s`."""
        self._routed[request] = engine
        requests = self._requests
        cancel_s = requests.cancel_s[request] if requests.cancel_s else inf
        limits = (requests.ttft_timeout_s, NO_FIRST_TOKEN), (requests.timeout_s, NO_ANSWER), (cancel_s, HAD_ENOUGH)
        for limit_s, reason in limits:
            if limit_s < inf:
                heappush(self._patience, (max(arrival_s + limit_s, self._env._now), request, reason))
        self._await()

    def ended(self, request: int) -> None:
        """A request has ended, in whatever way."""
        self._routed.pop(request, None)
        if not self._routed:
            self.stop()

    def stop(self) -> None:
        """None gives up from now on."""
        self._patience.clear()
        self.due_s = inf
        self._moved()

    def happen(self) -> float:
        """The patience of clients ends now."""
        patience, now_s = self._patience, self._env._now
        self._happening = True
        while patience and patience[0][0] <= now_s:
            _, request, reason = heappop(patience)
            if request in self._routed and not (reason is NO_FIRST_TOKEN and self._has_token(request)):
                self._cancel(request, reason)
        self._happening = False
        self.due_s = inf
        self._await()  # which tells the agenda
        return inf

    def _await(self) -> None:
        """Be due when the patience of the next client ends."""
        patience = self._patience
        while patience and patience[0][1] not in self._routed:
            heappop(patience)
        if patience and patience[0][0] != self.due_s and not self._happening:
            self.due_s = patience[0][0]
            self._moved()

    def _has_token(self, request: int) -> bool:
        return self._engines[0].sequences.generated_tokens[request] > 0

    def _cancel(self, request: int, reason: str) -> None:
        """Cancel it where it runs, or where it waits."""
        routed = self._routed[request]
        where = next((each for each in self._engines if request in each.scheduler.running), routed)
        if not where.cancel(request, reason):
            any(each.cancel(request, reason) for each in self._engines)
