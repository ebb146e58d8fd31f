"""Multi-step runs: consecutive steps of serving teams as one event, in closed form, where hardware stays as it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from simsys.executors.communication.base import Communication
from simsys.executors.core import Core
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.executors.steps.cohort import Cohort
from simsys.executors.steps.cohort_runs import CohortRuns
from simsys.executors.steps.drafting import DraftingRuns
from simsys.executors.steps.passes import NAME, PassOn
from simsys.executors.steps.pipeline import Pipeline
from simsys.executors.steps.pipeline_runs import PipelineRuns
from simsys.executors.steps.stages import Hops, Stages
from simsys.executors.steps.step_log import StepLog
from simsys.executors.steps.summed_passes import SummedPasses
from simsys.model.batch import Batch
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.parallel.passes import ForwardPass
from simsys.starter import Drafting, Stepper


class TeamRuns(SummedPasses):
    """Multi-step runs of teams without drafts and stages; arguments as for `ServingPasses`."""

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self.longest = 1 if core.model.stepping else sys.maxsize
        """Largest number of steps of a run; 1 for single steps, with equal times."""

    def runs_of(self, team: Group) -> type[ClosedFormRuns]:
        """The stepper of a team's runs of steps."""
        return ClosedFormRuns

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """Runs of steps in closed form, if the hardware stays as it is."""
        self.serves()
        if self.core.varies():
            return super().stepper(team, plan, done)
        return self.runs_of(team)(self.core, team, plan, done, self.idle.tally, self.longest)


class MultiStepRuns(TeamRuns):
    """Multi-step runs of all teams; arguments as for `ServingPasses`."""

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self._pipelines: dict[int, Pipeline] = {}  # by rank

    def drafting(self, team: Group, drafting: Drafting, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """A run of steps as one event, if the hardware stays as it is."""
        self.serves()
        if self.core.varies():
            return super().drafting(team, drafting, forward, done)
        return DraftingRuns(self.core, team, drafting, done, self.idle.tally, self.longest)

    def cohort(self, lockstep: LockStep, drafting: Drafting | None) -> Cohort:
        """Stretches of steps as one event, if the hardware stays as it is."""
        if self.core.varies():
            return super().cohort(lockstep, drafting)
        return CohortRuns(self.core, lockstep, drafting, self.longest)

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: PassOn,
        done: Callable[[int], None],
    ) -> Stepper:
        """Runs of steps in closed form, if the hardware stays as it is."""
        self.serves()
        if self.core.varies():
            return super().pipeline(stages, parts, rank, forward, done)
        pipeline = self._pipelines.get(stages[0][0].ranks[0])
        if pipeline is None:
            pipeline = Pipeline(self.env, self.probes, self._stages(stages, parts))
            self._pipelines |= {each: pipeline for group, _ in stages for each in group.ranks}
        log = StepLog(self.core, rank) if self.probes.steps else None
        return PipelineRuns(pipeline, done, self.longest, log)

    def _stages(self, stages: Sequence[tuple[Group, ForwardPass]], parts: int) -> Stages:
        """The stages of a pipeline, and the costs of steps."""
        passes = [Forward(group, plan, Batch(), 0.0, NAME) for group, plan in stages]
        devices = [self.platform.devices[op.rank] for op in passes]
        costs = [self.pass_cost(op) for op in passes]
        return Stages(passes, parts, devices, self.idle.channels, costs, self._hops, self.idle.tally)

    def _hops(self, op: Pipelined) -> Hops:
        """Messages between stages for a batch."""
        stages = range(len(op.passes) - 1)
        sends = [send for stage in stages if (send := self.idle.handed_on(op, stage)) is not None]
        return Hops([self.idle.hand_on_seconds(op, stage) for stage in stages], sends)

    def catch_up(self, rank: int) -> None:
        """Work of hosts comes after the passes that have been issued, also where these are foreseen."""
        pipeline = self._pipelines.get(rank)
        if pipeline is not None:
            pipeline.catch_up()
