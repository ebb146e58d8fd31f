"""The source of all requests of a job: each arrives at its time, or when another one has ended."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop
from itertools import islice
from math import inf
from typing import Protocol

from simpy.events import URGENT, Event

from simsys.platform.environment import AFTERWARDS, Environment, Recurring
from simsys.probes import Probes
from simsys.serving.replica import Replica
from simsys.serving.requests import RequestTable


def inlined(module: object) -> bool:
    """Whether a module's class says, itself, that what it does may be done in its place, and nothing is amended."""
    kind = type(module)
    return bool(vars(kind).get("inlined")) and not any(hasattr(kind, name) for name in vars(module))


class Front(Protocol):
    """What requests come to: a router, or what scales its replicas."""

    @property
    def replicas(self) -> Sequence[Replica]:
        """All on which a request may run."""

    def route(self, request: int) -> Replica:
        """The replica for a request that arrives now."""


class Source:
    """Hands requests to a router when they arrive.

    Arrivals come before everything else of a moment, so that a step that ends at this moment finds them; those that
    follow from an end come after all steps that end with it.

    Args:
        env: The environment.
        requests: All requests.
        router: Where they go.
        probes: Observers.
        late_s: How much later than they arrive at the server requests reach the router.
        elsewhere: Replicas besides those of the router, on which requests end too.
    """

    def __init__(
        self,
        env: Environment,
        requests: RequestTable,
        router: Front,
        probes: Probes,
        *,
        late_s: float = 0.0,
        elsewhere: Sequence[Replica] = (),
    ) -> None:
        self._env, self._requests, self._router, self._probes = env, requests, router, probes
        self._late_s = late_s
        self._arrival_s: Sequence[float] = requests.arrival_s
        if late_s:
            self._arrival_s = array("d", [time_s + late_s for time_s in requests.arrival_s])
        self.ended = Event(env)
        """Fires when all requests have ended, or when no more are to come."""
        self._left = len(requests)
        self._followers = _followers(requests.after)
        self._order: Sequence[int] = range(len(requests))
        if self._followers:
            self._order = [request for request in self._order if requests.after[request] < 0]
        self._next = 0
        self._free = requests.concurrency or len(requests)
        on_end = self._let_follow if self._followers or requests.concurrency else self._count
        for replica in (*router.replicas, *elsewhere):
            replica.on_end = on_end
        self._discreet = inlined(router)
        self._tick = Recurring(env, self._deliver, brief=True)
        self._handed_over = self._stopped = False
        self._due: dict[int, float] = {}  # followers that are to arrive at known times
        self._arm()
        for replica in (*router.replicas, *elsewhere):
            replica.hasten(self)

    def delivers_only_to(self, replica: Replica) -> bool:
        """Whether all requests go there, whatever happens, each at its own time."""
        alone = len(self._router.replicas) == 1 and self._router.replicas[0] is replica
        return alone and inlined(self._router) and not self._followers and not self._requests.concurrency

    def take_over(self) -> float:
        """Let somebody else deliver: when the next request arrives, infinity if that is not what comes next."""
        queue = self._env._queue
        if not (queue and queue[0][3] is self._tick and queue[0][1] == URGENT):
            return inf
        self._handed_over = True
        return heappop(queue)[0]

    def give_back(self, coming: int) -> None:
        """Deliver what is left, from a request on, if that was taken over."""
        if self._handed_over:
            self._handed_over = False
            self._free -= coming - self._next
            self._next = coming
            self._arm()

    def stop(self) -> None:
        """No more are to come; observers hear of those that are on their way to the router."""
        self._stopped = True
        next_ones = islice(self._order, self._next, self._next + max(self._free, 0))
        due = [*self._due.items(), *((request, self._arrival_s[request]) for request in next_ones)]
        for request, time_s in due:
            if time_s - self._late_s <= self._env._now:
                for hook in self._probes.request_arrived:
                    hook(request, time_s - self._late_s)
        self.ended.succeed()

    def _arm(self) -> None:
        """Wait for the next arrival, if it need not wait for another request's end."""
        if self._next < len(self._order) and self._free > 0:
            now_s = self._env._now
            time_s = self._arrival_s[self._order[self._next]]
            if time_s > now_s:
                self._tick.arm(time_s, URGENT)
            else:
                self._tick.arm(now_s, AFTERWARDS)

    def _deliver(self, _: Event) -> None:
        """Deliver the next request, and in the same event all others that arrive at this moment."""
        order, arrival_s, now_s = self._order, self._arrival_s, self._env._now
        if self._stopped:
            return
        while self._next < len(order) and self._free > 0:
            request = order[self._next]
            if arrival_s[request] > now_s:
                break
            self._next += 1
            self._free -= 1
            self._arrive(request)
        self._arm()

    def _arrive(self, request: int) -> None:
        for hook in self._probes.request_arrived:
            hook(request, self._env._now - self._late_s)
        if not self._discreet:
            for replica in self._router.replicas:
                replica.settle()
        self._router.route(request).submit(request)

    def _count(self, request: int) -> None:
        self._left -= 1
        if not self._left and not self._stopped:
            self.ended.succeed()

    def _let_follow(self, request: int) -> None:
        """Let the requests follow that have waited for this one, or the next one of a closed loop."""
        self._count(request)
        followers: Sequence[int] = self._followers.get(request, ())
        if self._requests.concurrency and not followers and self._next < len(self._order):
            self._next += 1
            followers = (self._order[self._next - 1],)
        for follower in followers:
            self._follow(follower)

    def _follow(self, request: int) -> None:
        think_s = self._requests.think_s[request] if self._requests.think_s else 0.0
        arrival = Event(self._env)
        arrival.callbacks.append(lambda _: self._follower_arrives(request))
        time_s = self._due[request] = max(self._env._now + think_s + self._late_s, self._arrival_s[request])
        self._env.fire_at(time_s, arrival, priority=AFTERWARDS)

    def _follower_arrives(self, request: int) -> None:
        if not self._stopped:
            del self._due[request]
            self._arrive(request)


def _followers(after: Sequence[int]) -> dict[int, list[int]]:
    """By request, those that arrive when it has ended."""
    followers: dict[int, list[int]] = {}
    for request, other in enumerate(after):
        if other >= 0:
            followers.setdefault(other, []).append(request)
    return followers
