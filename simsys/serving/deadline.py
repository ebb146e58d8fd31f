"""A serving run that ends at a time given beforehand, with requests in flight."""

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
        time_s: End of the run.
        source: The source of requests.
        engines: Engines of all replicas.
        probes: Observers.
        stop_hardware: Aborts work on GPUs.
    """

    def __init__(
        self,
        env: Environment,
        time_s: float,
        source: Source,
        engines: Sequence[Engine],
        probes: Probes,
        stop_hardware: Callable[[], None],
    ) -> None:
        self._env, self._source, self._engines, self._probes = env, source, engines, probes
        self._stop_hardware = stop_hardware
        reached = Event(env)
        reached.callbacks.append(self._stop)
        env.fire_at(time_s, reached, priority=LAST)

    def _stop(self, _: Event) -> None:
        if self._source.ended.triggered:
            return
        for engine in self._engines:
            engine.stop()
        self._stop_hardware()
        self._source.stop()
        for hook in self._probes.stopped:
            hook(self._engines[0].sequences.generated_tokens, self._env.now)
