"""Weeks of training on failing hardware: work, checkpoints, failures, and repeated work.

Iterations are not simulated one by one here: their duration is known from a run, so the process goes from failure to
failure, in closed form between them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simsys.platform.environment import Environment
from simsys.platform.events import At
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    from numpy.random import Generator as Random


@dataclass(frozen=True, slots=True)
class Progress:
    """Iterations between two restarts, and the checkpoints among them.

    Args:
        iteration_s: Time of an iteration.
        interval: Iterations between checkpoints; 0 for none.
        stop_s: Stop of all ranks for one.
        background_s: Duration of its write afterwards; it is unusable before the end.
    """

    iteration_s: float
    interval: int = 0
    stop_s: float = 0.0
    background_s: float = 0.0

    @property
    def period_s(self) -> float:
        """Time from one checkpoint to the next; the write of one delays the next."""
        return max(self.interval * self.iteration_s, self.background_s) + self.stop_s

    def after(self, elapsed_s: float) -> tuple[int, int]:
        """Iterations that are done `elapsed_s` after a start, and how many of them are saved."""
        if not self.interval:
            return int(elapsed_s / self.iteration_s), 0
        periods = int(elapsed_s / self.period_s)
        more = min(self.interval, int((elapsed_s - periods * self.period_s) / self.iteration_s))
        saved = int(max(0.0, elapsed_s - self.background_s) / self.period_s)
        return periods * self.interval + more, saved * self.interval


@dataclass(slots=True)
class Ledger:
    """The use of the time, in seconds.

    Args:
        iterations: Iterations done and not lost.
        failures: Number of failures by cause.
        lost_s: Work that was lost, with its checkpoints.
        down_s: Detection and restart.
        checkpoint_s: Stops for checkpoints that were not lost.
    """

    iterations: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    lost_s: float = 0.0
    down_s: float = 0.0
    checkpoint_s: float = 0.0


class Campaign:
    """A training job that is restarted from its last checkpoint whenever something fails.

    Times between failures are exponential, and a failure during a restart begins it again.

    Args:
        env: The environment.
        progress: How iterations follow one another.
        failures_per_s: Rate of failures of the whole cluster, by cause.
        down_s: Time from a failure to going on: its detection, and the restart with loading the checkpoint.
        random: Source of the failures.
    """

    def __init__(
        self, env: Environment, progress: Progress, failures_per_s: Mapping[str, float], down_s: float, random: Random
    ) -> None:
        self._env, self._progress, self._down_s, self._random = env, progress, down_s, random
        self._causes = [cause for cause, rate in failures_per_s.items() if rate]
        self._rates = [failures_per_s[cause] for cause in self._causes]
        self.ledger = Ledger(failures=dict.fromkeys(self._causes, 0))

    def run(self, duration_s: float) -> Generator[Any, Any, None]:
        """The process of a duration of wall-clock time."""
        env, ledger = self._env, self.ledger
        while env.now < duration_s:
            started_s = env.now
            failing_s = started_s + self._next_failure_s()
            yield At(env, min(failing_s, duration_s))
            done, saved = self._progress.after(env.now - started_s)
            if failing_s >= duration_s:
                self._keep(done)
                return
            self._keep(saved)
            kept_s = saved * self._progress.iteration_s + self._checkpoints(saved) * self._progress.stop_s
            ledger.lost_s += env.now - started_s - kept_s
            yield from self._restart(duration_s)

    def _restart(self, duration_s: float) -> Generator[Any, Any, None]:
        """Detect the failure, and restart until no further failure interrupts it."""
        env, began_s = self._env, self._env.now
        while True:
            self.ledger.failures[self._cause()] += 1
            failing_s, up_s = env.now + self._next_failure_s(), env.now + self._down_s
            yield At(env, min(failing_s, up_s, duration_s))
            if failing_s >= up_s or env.now >= duration_s:
                self.ledger.down_s += env.now - began_s
                return

    def _keep(self, iterations: int) -> None:
        self.ledger.iterations += iterations
        self.ledger.checkpoint_s += self._checkpoints(iterations) * self._progress.stop_s

    def _checkpoints(self, iterations: int) -> int:
        return iterations // self._progress.interval if self._progress.interval else 0

    def _next_failure_s(self) -> float:
        return float(self._random.exponential(1.0 / ordered_sum(self._rates))) if self._rates else float("inf")

    def _cause(self) -> str:
        at = self._random.random() * ordered_sum(self._rates)
        for cause, rate in zip(self._causes, self._rates, strict=True):
            at -= rate
            if at < 0.0:
                return cause
        return self._causes[-1]
