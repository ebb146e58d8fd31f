"""A serving run that ends with requests in flight, at a time given beforehand or decided on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event, EventPriority

from simsys.platform.environment import Environment
from simsys.platform.events import AFTERWARDS
from simsys.probes import Probes
from simsys.serving.engine import Engine
from simsys.serving.source import Source

LAST = EventPriority(AFTERWARDS << 2)
"""After everything else of a moment: what ends with the run still counts."""


class Deadline:
    """Ends a run, unless all requests have ended before.

    Completed steps count, with their tokens; steps in progress do not.

    Args:
        env: The environment.
        time_s: End of the run, or the first time at which `later` is asked.
        source: The source of requests.
        engines: Engines of all replicas.
        probes: Observers.
        stop_hardware: Aborts work on GPUs.
        later: Called with the time; returns a later time at which to call it again, or None to end the run.
    """

    def __init__(
        self,
        env: Environment,
        time_s: float,
        source: Source,
        engines: Sequence[Engine],
        probes: Probes,
        stop_hardware: Callable[[], None],
        later: Callable[[float], float | None] = lambda _: None,
    ) -> None:
        self._env, self._source, self._engines, self._probes = env, source, engines, probes
        self._stop_hardware, self._later = stop_hardware, later
        self._await(time_s)

    def _await(self, time_s: float) -> None:
        reached = Event(self._env)
        reached.callbacks.append(self._reached)
        self._env.fire_at(time_s, reached, priority=LAST)

    def _reached(self, _: Event) -> None:
        if self._source.ended.triggered:
            return
        next_s = self._later(self._env.now)
        if next_s is not None:
            self._await(next_s)
            return
        for engine in self._engines:
            engine.stop()
        self._stop_hardware()
        self._source.stop()
        for hook in self._probes.stopped:
            hook(self._engines[0].sequences.generated_tokens, self._env.now)
