"""The source of all requests of a job: each arrives at its time, or when another one has ended."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Protocol

from simpy.events import URGENT, Event

from simsys.platform.agenda import Later
from simsys.platform.environment import Environment
from simsys.platform.events import AFTERWARDS
from simsys.probes import Probes
from simsys.serving.api_server import ApiServer
from simsys.serving.clients import Clients
from simsys.serving.engine import Engine
from simsys.serving.leaving import HAD_ENOUGH
from simsys.serving.requests import RequestTable


class Front(Protocol):
    """What requests come to: a router, or what scales its replicas."""

    @property
    def replicas(self) -> Sequence[Engine]:
        """All on which a request may run."""

    @property
    def sheds(self) -> bool:
        """Whether requests may be rejected before they are routed."""

    def refusal(self, request: int) -> str:
        """Why a request that arrives now is rejected; empty if it is routed."""

    def route(self, request: int) -> Engine:
        """The replica for a request that arrives now."""


class Source:
    """Hands requests to a router when they arrive; an entry of the environment's agenda.

    Arrivals come before everything else of a moment, so that a step that ends at this moment finds them; those that
    follow from an end come after all steps that end with it.

    Args:
        env: The environment.
        requests: All requests.
        router: Where they go.
        probes: Observers.
        late_s: How much later than they arrive at the server requests reach the router, or the API server.
        api: Tokenises requests before they are routed.
        elsewhere: Engines apart from the router's, on which requests end too.
    """

    def __init__(
        self,
        env: Environment,
        requests: RequestTable,
        router: Front,
        probes: Probes,
        *,
        late_s: float = 0.0,
        api: ApiServer | None = None,
        elsewhere: Sequence[Engine] = (),
    ) -> None:
        import numpy as np

        self._env, self._requests, self._router, self._probes = env, requests, router, probes
        self._late_s, self._api = late_s, api
        self._arrival_s: Sequence[float] = requests.arrival_s
        if late_s:
            self._arrival_s = array("d", (np.asarray(requests.arrival_s) + late_s).tobytes())
        self.ended = Event(env)
        """Fires when all requests have ended, or when no more are to come."""
        self._left = len(requests)
        self._followers = _followers(requests)
        self._waits = {request: 1 + len(others) for request, others in enumerate(requests.joins) if others}
        """By request with several predecessors, how many of them have not ended."""
        self._dropped = set[int]()  # followers that are not sent any more
        self._order: Sequence[int] = range(len(requests))
        if requests.after:
            self._order = [request for request in self._order if requests.after[request] < 0]
        self._next = 0  # place in this order
        self._limit = min(requests.concurrency or len(requests), len(self._order))
        """Place up to which requests arrive by themselves, not after the end of another one."""
        self._hears_of, self._sheds = probes.request_arrived, router.sheds
        self._stopped = False
        self._come = self._arrive if api is not None or self._hears_of else self._reach
        """What happens with a request that arrives: called with it and the time."""
        engines = (*router.replicas, *elsewhere)
        self._clients = Clients(env, requests, engines) if requests.gives_up else None
        on_end = self._let_follow if requests.after or requests.concurrency else self._count
        for engine in engines:
            engine.on_end, engine.on_cancel = on_end if self._clients is None else self._answered, self._cancelled
        self._due: dict[int, float] = {}  # followers that are to arrive at known times
        self._later = Later(env.agenda, AFTERWARDS)
        self.due_s, self.priority = inf, int(URGENT)
        self._await_next()
        self._moved = env.agenda.add(self)

    def stop(self) -> None:
        """No more are to come; observers hear of those that are on their way to the router."""
        self._stopped, self.due_s = True, inf
        self._moved()
        if self._clients is not None:
            self._clients.stop()
        next_ones = self._order[self._next : self._limit]
        due = [*self._due.items(), *((request, self._arrival_s[request]) for request in next_ones)]
        for request, time_s in due:
            if time_s - self._late_s <= self._env._now:
                for hook in self._probes.request_arrived:
                    hook(request, time_s - self._late_s)
        self.ended.succeed()

    def _await_next(self) -> None:
        """Be due when the next request arrives, unless it has to wait for the end of another one."""
        if self._next < self._limit:
            now_s, time_s = self._env._now, self._arrival_s[self._order[self._next]]
            if time_s > now_s:
                self.due_s, self.priority = time_s, URGENT
            else:
                self.due_s, self.priority = now_s, AFTERWARDS
        else:
            self.due_s = inf

    def happen(self) -> float:
        """Deliver the next request, and all others that arrive at this moment."""
        now_s, arrival_s, place = self._env._now, self._arrival_s, self._next
        come = self._come  # as a local name, a function is called faster than as an attribute
        order = self._order if self._requests.after else None  # all, in order: a range is slow to look up
        while place < self._limit:
            request = place if order is None else order[place]
            time_s = arrival_s[request]
            if time_s > now_s:
                self.due_s = time_s
                if self.priority == URGENT:
                    return time_s
                self.priority = URGENT
                self._moved()
                return inf
            self._next = place + 1
            come(request, now_s)
            place = self._next  # if this one is refused, another one may follow
        self.due_s = inf
        return inf

    def _arrive(self, request: int, arrival_s: float) -> None:
        """Report an arrival; the API server tokenises the request first, if there is one."""
        for hook in self._hears_of:
            hook(request, arrival_s - self._late_s)
        if self._api is None:
            self._reach(request, arrival_s)
        else:
            ready_s = self._api.ready_s(request, arrival_s)
            self._later.call(ready_s, partial(self._reach, arrival_s=arrival_s), request)

    def _reach(self, request: int, arrival_s: float) -> None:
        """A request that arrived at `arrival_s` reaches the router."""
        if self._stopped:
            return
        if self._sheds and (reason := self._router.refusal(request)):
            for rejected in self._probes.request_rejected:
                rejected(request, reason, self._env._now)
            self._failed(request, again=True)
            return
        engine = self._router.route(request)
        if self._clients is not None:
            self._clients.sent(request, engine, arrival_s - self._late_s)
        engine.submit(request)

    def _answered(self, request: int) -> None:
        """A request has ended, so that it is not sent again."""
        assert self._clients is not None
        self._clients.ended(request)
        self._left -= self._repetitions(request)
        self._let_follow(request)

    def _cancelled(self, request: int, reason: str) -> None:
        """The client of a request has given up."""
        self._failed(request, again=reason != HAD_ENOUGH)

    def _failed(self, request: int, *, again: bool) -> None:
        """A request has no answer: its client sends it again, or nothing more of the conversation."""
        if self._clients is not None:
            self._clients.ended(request)
        if again and self._repetitions(request):
            self._count(request)
            self._follow(request + 1)
        else:
            self._left -= self._repetitions(request) + self._given_up_with(request)
            self._followers.pop(self._first(request), None)
            self._let_follow(request)

    def _repetitions(self, request: int) -> int:
        """The number of times that a request may still be sent again."""
        attempt, place = self._requests.attempt, request + 1
        while attempt and place < len(attempt) and attempt[place]:
            place += 1
        return place - request - 1

    def _first(self, request: int) -> int:
        """The first attempt of a request."""
        return request - self._requests.attempt[request] if self._requests.attempt else request

    def _given_up_with(self, request: int) -> int:
        """The number of requests that will not be sent, as they follow one without an answer."""
        lost, found = list(self._followers.get(self._first(request), ())), 0
        while lost:
            each = lost.pop()
            if each in self._dropped:
                continue
            self._dropped.add(each)
            found += 1 + self._repetitions(each)
            lost += self._followers.get(each, ())
        return found

    def _count(self, request: int) -> None:
        self._left -= 1
        if not self._left and not self._stopped:
            self.ended.succeed()

    def _let_follow(self, request: int) -> None:
        """Let the requests follow that have waited for this one, or the next one of a closed loop."""
        self._count(request)
        followers: Sequence[int] = self._followers.get(self._first(request), ())
        if self._requests.concurrency and not followers and self._next < len(self._order):
            followers = (self._order[self._next],)
            self._next += 1
            self._limit = min(self._limit + 1, len(self._order))
        for follower in followers:
            if follower in self._waits:
                self._waits[follower] -= 1
            if not self._waits.get(follower) and follower not in self._dropped:
                self._follow(follower)

    def _follow(self, request: int) -> None:
        think_s = self._requests.think_s[request] if self._requests.think_s else 0.0
        time_s = self._due[request] = max(self._env._now + think_s + self._late_s, self._arrival_s[request])
        self._later.call(time_s, self._follower_arrives, request)

    def _follower_arrives(self, request: int) -> None:
        if not self._stopped:
            del self._due[request]
            self._come(request, self._env._now)


def _followers(requests: RequestTable) -> dict[int, list[int]]:
    """By request, those that arrive when it has been answered, without repetitions of its own."""
    followers: dict[int, list[int]] = {}
    for request, other in enumerate(requests.after):
        if other >= 0 and not (requests.attempt and requests.attempt[request]):
            joined = requests.joins[request] if requests.joins else ()
            for each in (other, *joined):
                followers.setdefault(each, []).append(request)
    return followers
