"""Stretches of steps of data-parallel ranks that share their experts, in closed form."""

from __future__ import annotations

from typing import NamedTuple

from simsys.costs.pass_cost import PassCost
from simsys.costs.step_times import StepTimes
from simsys.executors.core import Core
from simsys.executors.steps.cohort import Cohort
from simsys.executors.steps.rounds import Round, drafted_s, rounds_of
from simsys.executors.steps.stretch_times import RoundTimes, Shared, StretchTimes, operations_of_step
from simsys.model.batch import Batch
from simsys.parallel.lockstep import LockStep
from simsys.starter import Drafting
from simsys.sums import ordered_sum

FEWEST_IN_HALVES = 32
"""Tokens of the largest batch from which on batches are halved: vLLM's default of ``--dbo-decode-token-threshold``."""


class Costs(NamedTuple):
    """Costs of the parts of a model.

    Args:
        own: Of each rank's own part, by its first GPU.
        experts: Of a GPU's share of the experts.
        exchange: Of the exchange.
        shared: Of the shared experts that are computed during the exchange, if they are.
    """

    own: dict[int, PassCost]
    experts: PassCost
    exchange: PassCost
    shared: PassCost | None

    @classmethod
    def of(cls, core: Core, lockstep: LockStep) -> Costs:
        """The costs of the parts of a model on the hardware of an executor."""
        parts, first = Round(lockstep, []), lockstep.teams[0]
        return cls(
            {team.ranks[0]: core.pass_cost(parts.forward(team, "own", Batch())) for team in lockstep.teams},
            core.pass_cost(parts.forward(first, "experts", Batch())),
            core.pass_cost(parts.forward(lockstep.everyone, "exchange", Batch())),
            None if lockstep.shared is None else core.pass_cost(parts.forward(first, "shared", Batch())),
        )


class CohortRuns(Cohort):
    """Engines whose stretches of steps end at a sum in closed form, on exclusive hardware; arguments: see `Cohort`."""

    def __init__(self, core: Core, lockstep: LockStep, drafting: Drafting | None, longest: int) -> None:
        super().__init__(core, lockstep, drafting, longest)
        models = [lockstep] if lockstep.draft is None else [lockstep.draft, lockstep]
        self._costs = {each: Costs.of(core, each) for each in models}
        self._times = StretchTimes([], 0.0)
        self._anchor_s, self._to = 0.0, 0

    def begin(self, steps: int) -> None:
        """Work out when the stretch ends."""
        self._times, self._to = self.times(), steps
        self._anchor_s = max(self.env._now, *(each.devices[0].free_at_s for each in self.running))
        self._arm()

    def times(self) -> StretchTimes:
        """Durations of steps from now on."""
        works = self.works()
        rounds = [self._round(each) for each in rounds_of(self.lockstep, self.drafting, works)]
        drafting_s, host_s = drafted_s(self.drafting, works), self.host_s
        if self.overlapped:
            return StretchTimes(rounds, self.moved_s + drafting_s, host_s)
        return StretchTimes(rounds, host_s + self.moved_s + drafting_s)

    def _round(self, found: Round) -> RoundTimes:
        """Durations of a pass."""
        lockstep, most, costs = found.lockstep, found.most_tokens, self._costs[found.lockstep]
        halves = 2 if lockstep.halves and most >= FEWEST_IN_HALVES else 1
        own = dict[int, StepTimes]()
        for place, team, batch, more in found.works:
            cost = costs.own[team.ranks[0]]
            if halves == 1:
                own[place] = cost.times(batch, more, 0.0)
            else:
                own[place] = cost.times(batch.part(2), more.part(2), 0.0)
                own[place].follow(cost.times(batch.part(2), more.part(2), 0.0))
        mean, exchanged = found.loads()
        experts_s, _ = costs.experts.seconds(mean.part(halves))
        _, exchange_s = costs.exchange.seconds(exchanged.part(halves))
        overlapped_s = 0.0 if costs.shared is None else ordered_sum(costs.shared.seconds(Batch(most)))
        shared = Shared(halves * experts_s, halves * exchange_s, halves, overlapped_s, lockstep.occupied)
        return RoundTimes(found, own, shared)

    def planned(self) -> int:
        """Book the stretch that ends now; return its number of steps."""
        self.book(self._to)
        return self._to

    def passed(self) -> int:
        """Number of steps of the stretch that have ended before the current event."""
        if not self.running:
            return 0
        now = self.env.priority >= self.priority
        return self._times.steps.passed(self._anchor_s, self.env._now, 0, self._to, now=now)

    def shorten(self) -> int:
        """End the stretch at the first boundary that is not before now; return its number of steps."""
        steps, end_s = self._times.steps.boundary(self._anchor_s, self.env._now, 1, self._to)
        if end_s == self.env._now and steps < self._to and self.env.priority >= self.priority:
            steps += 1  # that one has ended already
        if steps < self._to:
            self._to = steps
            self._arm()
        return steps

    def _arm(self) -> None:
        self.come(self._anchor_s + self._times.steps.elapsed(self._to), self._ends)

    def book(self, steps: int) -> None:
        """Note the work, the traffic and the steps of the first steps of the stretch."""
        times, tally = self._times, self.core.idle.tally
        ended_s = self._anchor_s + times.steps.elapsed(steps)
        for each in times.rounds:
            found, exchanged = each.round, each.round.loads()[1]
            tally.passed(found.forward(self.lockstep.everyone, "exchange", exchanged), exchanged, steps)
            for work in found.works:
                if work.team.size > 1:
                    tally.passed(found.forward(work.team, "own", work.batch), work.batch, steps)
        for place, member in enumerate(self.running):
            computing_s = times.computing_s(place, steps)
            for device in member.devices:
                device.free_at_s = ended_s
                device.busy_s += computing_s
            if self.probes.steps:
                batch = member.batch
                member.log.add(batch.tokens, batch.decode_sequences, self._anchor_s, 0, steps, times.steps)
        for member in self.members:
            if member not in self.running:  # but its GPUs compute for the others
                for device in member.devices:
                    device.busy_s += steps * times.experts_s
        if self.probes.operation:
            for step in range(steps):
                self._tell(step)

    def _tell(self, step: int) -> None:
        """Report the parts of each pass of a step, one after another."""
        hooks = self.probes.operation
        started_s = self._anchor_s + self._times.steps.elapsed(step)
        ended_s = self._anchor_s + self._times.steps.elapsed(step + 1)
        hosts_s = [each.host_s for each in self.running]
        for op, begun_s, over_s in operations_of_step(self._times.rounds, step, started_s, ended_s, hosts_s):
            for hook in hooks:
                hook(op, begun_s, over_s)
