"""The transfers of a collective: steps in lockstep, prepared once and executed repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import simpy
from simpy.events import Event

from simsys.platform.events import Callback, processed

Prepared = TypeVar("Prepared")
"""Transfers of equal size that start together, as a network prepares them: routes (first come, first served) or a set
of flows (fair sharing)."""


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[Prepared]):
    """Equal steps that follow one another.

    Args:
        transfers: The transfers of each.
        nbytes: Bytes of each transfer.
        repeat: How many such steps.
        pause_s: Software time of each step, after its last transfer has arrived.
    """

    transfers: Prepared
    nbytes: float
    repeat: int
    pause_s: float = 0.0


Carry = Callable[[Prepared, float, float], Event]
"""Starts prepared transfers with a number of bytes each; the event fires a delay in seconds after all have arrived."""


class LinkSchedule(Generic[Prepared]):
    """Steps; each begins when all transfers of the previous one have arrived and its pause is over.

    Args:
        env: The environment.
        steps: The steps, in order.
        carry: Starts the transfers of a step.
    """

    def __init__(self, env: simpy.Environment, steps: Iterable[Step[Prepared]], carry: Carry[Prepared]) -> None:
        self.env = env
        self.steps = tuple(steps)
        self.carry = carry

    def start(self, done: Callback) -> None:
        """Carry it out from now on; `done` is called at the end, at once if there is nothing to do."""
        self.go_on(SteppedRun(self, done), processed(self.env))

    def go_on(self, run: SteppedRun[Prepared], ended: Event) -> None:
        """The step before has `ended`: start the next one of a run, or end it."""
        step = run.advance()
        if step is None:
            run.done(ended)
        else:
            self.carry(step.transfers, step.nbytes, step.pause_s).callbacks.append(run.go_on)


class SteppedRun(Generic[Prepared]):
    """A schedule in step-by-step execution.

    Args:
        schedule: The schedule.
        done: Called at the end.
        index: Index in ``schedule.steps`` of the next step.
        taken: Number of its repetitions so far.
    """

    __slots__ = ("_schedule", "done", "index", "started_s", "taken")

    def __init__(self, schedule: LinkSchedule[Prepared], done: Callback, index: int = 0, taken: int = 0) -> None:
        self._schedule = schedule
        self.done, self.index, self.taken = done, index, taken
        self.started_s = 0.0
        """When the last step began."""

    def advance(self) -> Step[Prepared] | None:
        """The next step, which begins now; None if there is none left."""
        steps = self._schedule.steps
        if self.index == len(steps):
            return None
        step = steps[self.index]
        self.taken += 1
        if self.taken == step.repeat:
            self.index, self.taken = self.index + 1, 0
        self.started_s = self._schedule.env._now
        return step

    def go_on(self, ended: Event) -> None:
        """Continue after a step."""
        self._schedule.go_on(self, ended)
