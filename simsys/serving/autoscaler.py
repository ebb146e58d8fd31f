"""Autoscaling of replicas with the load: more while requests queue, fewer at low load.

Like horizontal autoscalers, it decides at regular times only. A started replica serves after a delay, during which its
GPUs are already paid for. A replica that is no longer needed drains: it gets no new requests, and stops after its last
one. Requests stay on their replica.
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
    """The rule of scaling.

    Args:
        min_replicas: Replicas that serve from the beginning and never stop.
        max_replicas: Largest number of running replicas.
        scale_up_queue: A replica is started when more requests wait than this times the running and starting ones.
        scale_down_idle_s: A replica without requests for this time (s) stops, and one drains after this time of low
            load, unless waiting requests would start it again.
        startup_s: Seconds from the start of a replica until it serves.
        interval_s: Seconds between two decisions, at multiples of it.
    """

    min_replicas: int
    max_replicas: int
    scale_up_queue: float
    scale_down_idle_s: float
    startup_s: float
    interval_s: float
    scale_down_requests: float = 0.0
    """Low load: waiting and running requests per remaining replica are at most this number."""


class Autoscaler:
    """Decides which replicas a router sees.

    It decides only while requests are in flight or more replicas run than needed.

    Args:
        env: The environment.
        engines: The engines of all replicas: those of number i are i, i + `count`, and so on.
        count: Number of replicas.
        rule: The rule of scaling.
        make_router: Creates the router from the list of selectable engines, which changes.
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

    @property
    def sheds(self) -> bool:
        """Whether the router may reject requests."""
        return self._router.sheds

    def refusal(self, request: int) -> str:
        """Why the router rejects a request that arrives now; empty if it is routed."""
        return self._router.refusal(request)

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
        """Number of requests waiting or running on a replica."""
        return sum(map(_outstanding, self.replicas[number :: self._count]))

    def _too_few(self, replicas: int) -> bool:
        """True if more requests wait than this number of replicas may have."""
        waiting = sum(len(engine.scheduler.waiting) for engine in self._seen)
        return waiting > self._rule.scale_up_queue * replicas

    def _scale_up(self) -> None:
        paid = len(self._on) + len(self._starting)
        if not self._too_few(paid):
            return
        if self._draining:  # it serves again, immediately
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
        """Drain the replica with the fewest requests if the other ones suffice."""
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
        """Update the replicas that the router sees."""
        on = set(self._on)
        self._seen[:] = [engine for engine, number in self._number_of.items() if number in on]
        for hook in self._probes.scaled:
            paid = len(self._on) + len(self._starting) + len(self._draining)
            hook(len(self._on), paid, self._env.now)


def _outstanding(engine: Engine) -> int:
    return engine.outstanding
