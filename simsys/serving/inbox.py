"""Where the requests of a replica arrive, and where it reports what becomes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.platform.environment import Environment
from simsys.probes import Probes
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    from simsys.serving.scheduler import Chunk


class Inbox:
    """Delivers requests at their arrival times and tells the probes about them.

    Args:
        env: The environment.
        requests: All requests, in order of arrival.
        probes: Observers.
        order: The requests that come to this replica, in order of arrival.
        capacity_tokens: KV-cache tokens of the replica; a request that can never fit is rejected on arrival.
        max_context_tokens: Longest prompt plus output the model accepts; 0 for no limit.
    """

    def __init__(
        self,
        env: Environment,
        requests: RequestTable,
        probes: Probes,
        *,
        order: Sequence[int],
        capacity_tokens: int,
        max_context_tokens: int = 0,
    ) -> None:
        self.waiting: deque[int] = deque()
        self._env, self._requests, self._probes = env, requests, probes
        self._capacity_tokens = capacity_tokens
        self._max_context_tokens = max_context_tokens
        self._order = order
        self._next = 0
        self._bell: Event | None = None
        self._arm()

    @property
    def closed(self) -> bool:
        """True when no request will arrive any more."""
        return self._next == len(self._order)

    @property
    def now(self) -> float:
        """Simulated time in seconds."""
        return self._env._now

    def arrival(self) -> Event:
        """An event that fires when the next request arrives."""
        self._bell = Event(self._env)
        return self._bell

    def admitted(self, request: int) -> None:
        """A request is scheduled; the probes count the first time."""
        for hook in self._probes.request_admitted:
            hook(request, self._env.now)

    def first_token(self, request: int) -> None:
        """A request has its first token."""
        for hook in self._probes.request_first_token:
            hook(request, self._env.now)

    def finished(self, request: int) -> None:
        """A request has its last token."""
        for hook in self._probes.request_finished:
            hook(request, self._env.now)

    def preempted(self, request: int) -> None:
        """A request has lost its cache."""
        for hook in self._probes.request_preempted:
            hook(request, self._env.now)

    def stepped(self, started_s: float, ended_s: float, decoding: int, chunks: Sequence[Chunk]) -> None:
        """The replica has finished a step."""
        prompt_tokens = sum([chunk.tokens for chunk in chunks]) if chunks else 0
        for hook in self._probes.step:
            hook(started_s, ended_s, decoding, prompt_tokens)

    def _arm(self) -> None:
        if not self.closed:
            self._env.at(self._requests.arrival_s[self._order[self._next]], self._deliver)

    def _deliver(self, _: Event) -> None:
        """Deliver the next request, and in the same event all others that arrive at this moment."""
        arrivals, now = self._requests.arrival_s, self._env.now
        while not self.closed and arrivals[self._order[self._next]] <= now:
            request = self._order[self._next]
            self._next += 1
            reason = self._refusal(request)
            if reason:
                for hook in self._probes.request_rejected:
                    hook(request, reason, now)
            else:
                self.waiting.append(request)
        self._arm()
        if self._bell is not None:
            bell, self._bell = self._bell, None
            bell.succeed()

    def _refusal(self, request: int) -> str:
        """Why a request can never be served; empty if it can."""
        total = self._requests.prompt_tokens[request] + self._requests.output_tokens[request]
        if self._max_context_tokens and total > self._max_context_tokens:
            return f"longer than the model's context of {self._max_context_tokens} tokens"
        if total - 1 > self._capacity_tokens:
            return f"longer than the KV cache of {self._capacity_tokens} tokens"
        return ""
