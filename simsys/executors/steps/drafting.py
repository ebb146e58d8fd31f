"""Multi-step runs with drafting and verification: each step has several passes with summed durations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from simsys.costs.step_times import StepTimes
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.layout import Group
from simsys.starter import Drafting
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    from simsys.executors.core import Core
    from simsys.executors.tally import Tally


class DraftingRuns(ClosedFormRuns):
    """Multi-step runs of a team that drafts tokens; other arguments as for `ClosedFormRuns`.

    Args:
        drafting: Settings of drafting.
    """

    __slots__ = ("_draft", "_draft_cost", "_drafting")

    def __init__(
        self,
        executor: Core,
        team: Group,
        drafting: Drafting,
        done: Callable[[int], None],
        tally: Tally,
        longest: int,
    ) -> None:
        super().__init__(executor, team, drafting.plan, done, tally, longest)
        self._drafting = drafting
        if drafting.draft is not None:
            self._draft = Forward(team, drafting.draft, Batch(), 0.0, "draft")
            self._draft_cost = executor.pass_cost(self._draft)

    def _durations(self, batch: Batch, steps: int, before_s: float) -> StepTimes:
        """The passes of a step, one after another."""
        more = self._more
        drafting = self._drafting
        times = self._cost.times(batch, more, before_s + drafting.host_s(batch))
        if drafting.draft is not None:
            more = drafting.growth(more)
            for each in drafting.drafts(batch):
                times.follow(self._draft_cost.times(each, more, 0.0))
        return times

    def _passes(self, batch: Batch) -> Iterator[tuple[Forward, float]]:
        """The passes of a step, with their durations without host time."""
        for each in self._drafting.drafts(batch):
            compute_s, exchange_s = self._draft_cost.seconds(each)
            yield replace(self._draft, batch=each), compute_s + exchange_s
        compute_s, exchange_s = self._cost.seconds(batch)
        yield replace(self._op, batch=batch), compute_s + exchange_s

    def _count(self, tally: Tally, steps: int) -> None:
        for op, _ in self._passes(self._after(0)):
            tally.passed(op, op.batch, steps)

    def _tell_passes(self, first: int, end: int) -> None:
        started_s = self._started_s
        for step in range(first, end):
            ended_s = self._boundary_s(step + 1)
            passes = list(self._passes(self._after(step)))
            host_s = max(0.0, ended_s - started_s - ordered_sum(seconds for _, seconds in passes))
            for op, seconds in passes:
                until_s = ended_s if op is passes[-1][0] else started_s + host_s + seconds
                for hook in self._probes.operation:
                    hook(op, started_s, until_s)
                started_s, host_s = until_s, 0.0
