"""What a collective does to links: steps in lockstep, prepared once and carried out as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from simpy.events import Event

from simsys.platform.environment import Callback, Environment
from simsys.platform.link import Link

LinkT = TypeVar("LinkT", bound=Link)

Route = tuple[LinkT, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[LinkT]):
    """Equal steps that follow one another.

    Args:
        routes: The routes that are taken at once in each; a link that serves in turn takes them in this order.
        nbytes: Bytes on each route.
        repeat: How many such steps.
        pause_s: What software takes in each, after the last transfer has arrived.
    """

    routes: Sequence[Route[LinkT]]
    nbytes: float
    repeat: int
    pause_s: float = 0.0


Carry = Callable[[Iterable[Route[LinkT]], float, float], Event]
"""Sends so many bytes over each of some routes at once; the event fires so long after all have arrived."""


class Schedule(Generic[LinkT]):
    """Steps of which each begins when all transfers of the one before have arrived and its pause is over.

    Args:
        env: The environment.
        steps: What is done, in order.
        carry: Starts the transfers of a step.
    """

    def __init__(self, env: Environment, steps: Iterable[Step[LinkT]], carry: Carry[LinkT]) -> None:
        self.env = env
        self.steps = tuple(steps)
        self.carry = carry

    def start(self, done: Callback) -> None:
        """Carry it out from now on; `done` is called at the end, at once if there is nothing to do."""
        self.go_on(SteppedRun(self, done), self.env.done)

    def go_on(self, run: SteppedRun[LinkT], ended: Event) -> None:
        """The step before has `ended`: start the next one of a run, or end it."""
        step = run.advance()
        if step is None:
            run.done(ended)
        else:
            self.carry(step.routes, step.nbytes, step.pause_s).callbacks.append(run.go_on)


class SteppedRun(Generic[LinkT]):
    """A schedule that is being carried out step by step.

    Args:
        schedule: What is carried out.
        done: Called at the end.
        index: The place in ``schedule.steps`` of the next step.
        taken: How many times it has been repeated already.
    """

    __slots__ = ("_schedule", "done", "index", "started_s", "taken")

    def __init__(self, schedule: Schedule[LinkT], done: Callback, index: int = 0, taken: int = 0) -> None:
        self._schedule = schedule
        self.done, self.index, self.taken = done, index, taken
        self.started_s = 0.0
        """When the last step began."""

    def advance(self) -> Step[LinkT] | None:
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
        """Go on after a step."""
        self._schedule.go_on(self, ended)
