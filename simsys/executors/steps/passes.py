"""Consecutive steps of a serving team, each a forward pass of its own."""

from __future__ import annotations

from collections.abc import Callable

from simpy.events import Event

from simsys.costs.step_times import StepTimes
from simsys.executors.core import Core
from simsys.executors.steps.step_log import StepLog
from simsys.model.batch import NOTHING, Batch
from simsys.platform.events import At

NAME = "step"
"""The name of the passes, for observers."""


PassOn = Callable[[Batch, float], Event]
"""Passes a batch through a model after host work (s); the event fires at the end."""


class Passes:
    """Every step is a separate forward pass, after which the engine is called again.

    Args:
        executor: Carries out the passes.
        rank: The first rank of the team.
        forward: Passes a batch through the model, after host work in seconds.
        done: Called after a run of steps, with their number.
        overlapped: Whether host work overlaps the pass instead of preceding it.
    """

    def __init__(
        self, executor: Core, rank: int, forward: PassOn, done: Callable[[int], None], *, overlapped: bool = False
    ) -> None:
        self._executor, self._env = executor, executor.env
        self._forward, self._done, self._overlapped = forward, done, overlapped
        self._batch = Batch()
        self._started_s = self._host_ends_s = 0.0
        self._stopped = False
        self._log = StepLog(executor, rank)

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start steps without prompts."""
        self.run(Batch(sequences, sequences, 0.0, 0, context_tokens, sequences), steps, host_s)

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start the first of at most this number of steps."""
        self._batch, self._started_s = batch, self._env._now
        self._host_ends_s = self._started_s + host_s if self._overlapped else 0.0
        event = self._forward(batch, 0.0 if self._overlapped else host_s)
        if event.callbacks is None:  # zero duration
            event = At(self._env, self._env._now)
        event.callbacks.append(self._ended)

    def cut(self, later: bool = False) -> int:
        """The team is asked after every step anyway."""
        return 0

    def next_s(self) -> float | None:
        """The end of a pass is not foreseen."""
        return None

    def passed(self) -> int:
        """All steps that have ended have been reported."""
        return 0

    def stop(self) -> int:
        """End now, without the step under way."""
        self._stopped = True
        return 0

    def _ended(self, _: Event) -> None:
        if self._stopped:
            return
        if self._env._now < self._host_ends_s:
            At(self._env, self._host_ends_s, self._ended)
            return
        if self._executor.probes.steps:
            times = StepTimes(self._env._now - self._started_s, 0.0, 0.0)
            self._log.add(self._batch.tokens, self._batch.decode_sequences, self._started_s, 0, 1, times)
        self._done(1)
