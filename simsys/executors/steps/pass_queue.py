"""Passes of serving teams where each segment is an event: one after another on each team, from stage to stage."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from simpy.events import Event

from simsys.ops import Forward, Pipelined
from simsys.platform.environment import Environment
from simsys.platform.events import Callback


class Runs(Protocol):
    """Carries out the passes of a team, one at a time."""

    def begin(self, op: Forward, ready_s: float | None, event: Event) -> None:
        """Start a pass, when the host is ready for it or else now; the event is to fire at its end."""

    def stop(self) -> None:
        """Begin nothing further of the pass under way; the GPUs have not been busy with it."""


class PassQueue:
    """The passes of one team, in the order in which they were issued.

    Args:
        env: The environment.
        runs: Carries out the team's passes.
    """

    __slots__ = ("_busy", "_env", "_event", "_runs", "_waiting")

    def __init__(self, env: Environment, runs: Runs) -> None:
        self._env, self._runs = env, runs
        self._waiting: deque[tuple[Forward, float | None, Event]] = deque()
        self._busy = False
        self._event: Event | None = None

    def stop(self) -> None:
        """Abort the current pass and all others."""
        if self._busy and self._event is not None:
            self._event.callbacks.remove(self._ended)
            self._runs.stop()
        self._busy, self._waiting = True, deque(maxlen=0)

    def add(self, op: Forward, ready_s: float | None = None) -> Event:
        """Start a pass as soon as those before it have ended.

        Args:
            op: The pass.
            ready_s: When the host is ready for it, if it gets ready while the GPUs still work; by default the host
                begins when they have finished.
        """
        event = Event(self._env)
        if self._busy:
            self._waiting.append((op, ready_s, event))
        else:
            self._start(op, ready_s, event)
        return event

    def _start(self, op: Forward, ready_s: float | None, event: Event) -> None:
        self._busy = True
        event.callbacks.insert(0, self._ended)
        self._event = event
        self._runs.begin(op, ready_s, event)

    def _ended(self, _: Event) -> None:
        self._busy = False
        if self._waiting:
            self._start(*self._waiting.popleft())


class StageRuns(Protocol):
    """Executes the passes of a batch through a pipeline."""

    env: Environment

    def stage_pass(self, op: Forward, ready_s: float | None = None) -> Event:
        """Start a pass over a stage as soon as those before it have ended; see `PassQueue.add`."""

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Send the hidden states from each rank of a stage to its neighbour in the next."""


class PipelineRun:
    """A batch on its way through the stages of a pipeline.

    Args:
        executor: Runs the passes and the transfers.
        op: The batch and the stages.
    """

    __slots__ = ("_executor", "_op", "_stage", "event")

    def __init__(self, executor: StageRuns, op: Pipelined) -> None:
        self._executor, self._op, self._stage = executor, op, 0
        self.event = Event(executor.env)
        first = op.passes[0]
        ready_s = executor.env.now + first.host_s
        executor.stage_pass(first, ready_s).callbacks.append(self._left)

    def _left(self, event: Event) -> None:
        """The batch leaves a stage: for the next one, or for good."""
        if self._stage + 1 == len(self._op.passes):
            self.event.succeed()
        else:
            self._executor.hand_on(self._op, self._stage, self._arrived)

    def _arrived(self, _: Event) -> None:
        self._stage += 1
        stage = self._op.passes[self._stage]
        self._executor.stage_pass(stage).callbacks.append(self._left)
