"""Replicas that come and go with the load: more while requests queue, fewer while there are few of them.

As horizontal autoscalers do, it looks at regular times only. A replica that is started takes requests after a delay,
in which its GPUs are paid for already. One that is no longer needed drains: it gets no further requests, and is turned
off when those that it has have ended. A request stays where it was routed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simsys.platform.environment import Environment
from simsys.platform.events import At
from simsys.probes import Probes
from simsys.serving.engine import Engine
from simsys.serving.router import Router

ROUNDING = 1e-9
"""A replica that has been idle for all but this share of the time asked for has been idle for long enough."""


@dataclass(frozen=True)
class ScalingRule:
    """When to scale.

    Args:
        min_replicas: Take requests from the beginning, and are never turned off.
        max_replicas: Most that are on at a time.
        scale_up_queue: One more is started when more requests wait than this times those that are on or starting.
        scale_down_idle_s: One is turned off that has had no request for so long, seconds, and one drains if there have
            been few requests for so long; unless so many wait elsewhere that one would be started again.
        startup_s: Seconds from its start until a replica takes requests.
        interval_s: Seconds between looks, which are at the multiples of it.
    """

    min_replicas: int
    max_replicas: int
    scale_up_queue: float
    scale_down_idle_s: float
    startup_s: float
    interval_s: float
    scale_down_requests: float = 0.0
    """Requests are few if all that wait or run are at most so many for each replica that would be left."""


class Autoscaler:
    """Stands before a router and decides which replicas it sees.

    It looks only while requests are under way or more replicas are on than need be.

    Args:
        env: The environment.
        engines: The engines of all replicas: those of number i are i, i + `count`, and so on.
        count: How many replicas there are.
        rule: When to scale.
        make_router: Makes the router, given the engines to choose from, a list that changes.
        probes: Observers.
    """

    def __init__(
        self,
        env: Environment,
        engines: Sequence[Engine],
        count: int,
        rule: ScalingRule,
        make_router: Callable[[Sequence[Engine]], Router],
        probes: Probes,
    ) -> None:
        self.replicas = engines
        """Of all replicas, be they on or off."""
        self._env, self._rule, self._probes, self._count = env, rule, probes, count
        self._number_of = {engine: place % count for place, engine in enumerate(engines)}
        self._on = list(range(rule.min_replicas))
        self._starting: list[int] = []
        self._draining: list[int] = []
        self._few_since_s = math.inf
        self._idle_since_s: dict[int, float] = {}
        self._seen: list[Engine] = []
        self._look_number, self._armed, self._stopped = 0, False, False
        self._changed()
        self._router = make_router(self._seen)

    def route(self, request: int) -> Engine:
        """The replica for a request that arrives now."""
        replica = self._router.route(request)
        if self._rule.min_replicas < self._rule.max_replicas:
            self._idle_since_s.pop(self._number_of[replica], None)
            if not self._armed:
                self._arm()
        return replica

    def stop(self) -> None:
        """Nothing more is to come."""
        self._stopped = True

    def _arm(self) -> None:
        """Look at the next multiple of the interval."""
        interval_s, now_s = self._rule.interval_s, self._env.now
        self._look_number = max(int(now_s / interval_s), self._look_number) + 1
        self._armed = True
        At(self._env, max(now_s, self._look_number * interval_s), self._look)

    def _look(self, _: object) -> None:
        self._armed = False
        if self._stopped:
            return
        self._note_idle()
        self._turn_off_drained()
        self._scale_up()
        self._scale_down()
        self._drain()
        more = self._starting or self._draining or len(self._on) > self._rule.min_replicas
        if more or any(map(_outstanding, self._seen)):
            self._arm()

    def _note_idle(self) -> None:
        for number in self._on:
            if self._requests_of(number):
                self._idle_since_s.pop(number, None)
            else:
                self._idle_since_s.setdefault(number, self._env.now)

    def _requests_of(self, number: int) -> int:
        """How many wait or run on a replica."""
        return sum(map(_outstanding, self.replicas[number :: self._count]))

    def _too_few(self, replicas: int) -> bool:
        """Whether more requests wait than so many replicas may have."""
        waiting = sum(len(engine.scheduler.waiting) for engine in self._seen)
        return waiting > self._rule.scale_up_queue * replicas

    def _scale_up(self) -> None:
        paid = len(self._on) + len(self._starting)
        if not self._too_few(paid):
            return
        if self._draining:  # it takes requests again, at once
            self._on = sorted([*self._on, self._draining.pop()])
            self._changed()
        elif paid < self._rule.max_replicas:
            taken = {*self._on, *self._starting}
            number = next(each for each in range(self._count) if each not in taken)
            self._starting.append(number)
            self._changed()
            At(self._env, self._env.now + self._rule.startup_s, lambda _: self._started(number))

    def _started(self, number: int) -> None:
        if not self._stopped:
            self._starting.remove(number)
            self._on = sorted([*self._on, number])
            self._changed()

    def _scale_down(self) -> None:
        latest_s = self._env.now - self._rule.scale_down_idle_s * (1.0 - ROUNDING)
        long_idle = [number for number in self._on if self._idle_since_s.get(number, math.inf) <= latest_s]
        for number in reversed(long_idle):
            others = len(self._on) - 1
            if others < self._rule.min_replicas or self._too_few(others + len(self._starting)):
                return
            self._on.remove(number)
            del self._idle_since_s[number]
            self._changed()

    def _drain(self) -> None:
        """Let the replica with the fewest requests have no more if those that are left would do."""
        now_s, others = self._env.now, len(self._on) - 1
        requests = sum(map(_outstanding, self._seen))
        if others < self._rule.min_replicas or requests > self._rule.scale_down_requests * others:
            self._few_since_s = math.inf
            return
        self._few_since_s = min(self._few_since_s, now_s)
        long_enough = self._few_since_s <= now_s - self._rule.scale_down_idle_s * (1.0 - ROUNDING)
        if not requests or not long_enough or self._too_few(others + len(self._starting)):
            return
        number = min(self._on, key=lambda each: (self._requests_of(each), -each))
        self._on.remove(number)
        self._idle_since_s.pop(number, None)
        self._draining.append(number)
        self._few_since_s = math.inf
        self._turn_off_drained()
        self._changed()

    def _turn_off_drained(self) -> None:
        left = [number for number in self._draining if self._requests_of(number)]
        if len(left) < len(self._draining):
            self._draining = left
            self._changed()

    def _changed(self) -> None:
        """Let the router see those that are on."""
        on = set(self._on)
        self._seen[:] = [engine for engine, number in self._number_of.items() if number in on]
        for hook in self._probes.scaled:
            paid = len(self._on) + len(self._starting) + len(self._draining)
            hook(len(self._on), paid, self._env.now)


def _outstanding(engine: Engine) -> int:
    return engine.outstanding
