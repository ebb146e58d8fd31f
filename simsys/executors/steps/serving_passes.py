"""The interface of components for serving passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.component import Component
from simsys.executors.core import Core
from simsys.executors.own_work import SERVING
from simsys.executors.steps.cohort import Cohort
from simsys.executors.steps.cohort_runs import CohortRuns
from simsys.executors.steps.cohort_steps import CohortSteps
from simsys.executors.steps.passes import NAME, Passes, PassOn
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.parallel.passes import ForwardPass
from simsys.platform.device import Device
from simsys.starter import Drafting, Stepper


class ServingPasses(Component, ABC):
    """One way to carry out forward passes of serving teams; each step is a pass of its own.

    Args:
        core: The services that all components share.
        communication: The component that carries out transfers.
    """

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core)
        self.communication = communication
        self._cohorts: dict[LockStep, Cohort] = {}

    @abstractmethod
    def forward(self, op: Forward) -> Event:
        """Pass a batch through a model on a team."""

    def together(self, ops: Sequence[Forward]) -> Event:
        """Pass batches through models on teams of equal size from now on; the event fires at the end of the last."""
        return self.env.all_of([self.start(op) for op in ops])

    @abstractmethod
    def pipelined(self, op: Pipelined) -> Event:
        """Pass a batch through the stages of a pipeline."""

    def stop(self) -> None:
        """Abort passes in flight. Busy time counts completed ones only."""

    def catch_up(self, rank: int) -> None:
        """Let the GPUs of a rank know until when they have work that is foreseen."""

    def serves(self) -> None:
        """A serving team begins: GPUs cannot be requested, since its passes do not queue for them."""
        if self.own is not None:
            self.own.refuse(Device, SERVING)

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """The stepper of a serving team; `done` is called after a run of steps, with their number."""
        return self.passes(
            team.ranks[0], lambda batch, host_s: self.start(Forward(team, plan, batch, host_s, NAME)), done
        )

    def passes(self, rank: int, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """The stepper of single steps that consist of several passes or teams.

        Args:
            rank: The first rank of the team.
            forward: Carries out a step.
            done: Called after each, with 1.
        """
        self.serves()
        return Passes(self.core, rank, forward, done, overlapped=self.model.async_scheduling)

    def drafting(self, team: Group, drafting: Drafting, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """The stepper of a team that drafts tokens and verifies them."""
        return self.passes(team.ranks[0], forward, done)

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: PassOn,
        done: Callable[[int], None],
    ) -> Stepper:
        """The stepper of one of the engines that share the stages of a pipeline.

        Args:
            stages: The ranks and one rank's share of each stage.
            parts: Number of parts into which hidden states are divided.
            rank: The first rank of the engine.
            forward: Carries out a step.
            done: Called after a run of steps, with their number.
        """
        self.serves()
        return Passes(self.core, rank, forward, done)

    def lockstep(
        self, lockstep: LockStep, drafting: Drafting | None, rank: int, done: Callable[[int], None]
    ) -> Stepper:
        """The stepper of one of the data-parallel ranks that share their experts.

        Args:
            lockstep: The ranks, and the passes of a step.
            drafting: How each rank drafts tokens, if they do; the same for all of them.
            rank: The first GPU of the rank.
            done: Called after a run of steps, with their number.
        """
        self.serves()
        found = self._cohorts.get(lockstep)
        if found is None:
            found = self._cohorts[lockstep] = self.cohort(lockstep, drafting)
        return found.member(rank, done)

    def cohort(self, lockstep: LockStep, drafting: Drafting | None) -> Cohort:
        """What carries out the steps of data-parallel ranks: with events, or at once if the exchange overlaps."""
        if lockstep.overlaps:
            return CohortRuns(self.core, lockstep, drafting, 1)
        return CohortSteps(self.core, lockstep, drafting, self.together)
