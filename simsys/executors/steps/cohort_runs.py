"""Stretches of steps of data-parallel ranks that share their experts, in closed form.

The own part of each rank is the largest of some lines in the number of the step, and the slowest rank decides. So a
step is the largest of all these lines, plus the experts' part and the exchange, which do not change.
"""

from __future__ import annotations

from typing import NamedTuple

from simsys.costs.step_times import Line, StepTimes
from simsys.executors.core import Core
from simsys.executors.steps.cohort import Cohort
from simsys.model.batch import Batch
from simsys.parallel.lockstep import LockStep
from simsys.sums import ordered_sum

FEWEST_IN_HALVES = 32
"""Tokens of the largest batch from which on batches are halved: vLLM's default of ``--dbo-decode-token-threshold``."""


class Shared(NamedTuple):
    """Durations of the parts of a step that all ranks share, both halves if there are two.

    Args:
        experts_s: The experts' part.
        exchange_s: The exchange.
        halves: Number of parts of each batch, 1 or 2.
        overlapped_s: Shared experts, which are computed during the exchange.
        moved_s: A step's part of the time to place the experts anew.
    """

    experts_s: float
    exchange_s: float
    halves: int
    overlapped_s: float = 0.0
    moved_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """From the beginning of the exchange to the experts' part."""
        return max(self.exchange_s, self.overlapped_s)


class StretchTimes:
    """Durations of a stretch.

    Args:
        own: The own parts of the ranks.
        shared: What they share.
        host_s: Host time.
        overlapped: Whether the host works during the step before.
        lockstep: The ranks and their passes.
    """

    def __init__(
        self, own: list[StepTimes], shared: Shared, host_s: float, lockstep: LockStep, *, overlapped: bool
    ) -> None:
        self.own, self.shared = own, shared
        before_s = shared.moved_s if overlapped else host_s + shared.moved_s
        lines = [line for each in own for line in _lines(each)]
        times = StepTimes(before_s, 0.0, before_s + shared.waited_s)
        if shared.halves == 1:
            times.add(lines)
            times.first_s += shared.experts_s + shared.waited_s
        else:
            alone, computing = lockstep.alone, [(first + shared.experts_s, growth) for first, growth in lines]
            times.add([*_scaled(computing, 1.0 - alone), ((1.0 - alone) * shared.exchange_s, 0.0)])
            times.add(_scaled(computing, alone))
            times.first_s += alone * shared.exchange_s
        self.steps = times.at_least(host_s) if overlapped else times
        """Of the steps."""

    def computing_s(self, place: int, steps: int) -> float:
        """For how long the GPUs of a running rank compute in the first steps."""
        own = self.own[place]
        return own.elapsed(steps) + steps * (self.shared.experts_s + self.shared.overlapped_s - own.idle_s)


def _lines(times: StepTimes) -> list[Line]:
    """The lines of which durations are the largest: they grow faster from each breakpoint on."""
    return [times.line(step) for step in (0, *(breakpoint for breakpoint, _, _ in times.breakpoints))]


def _scaled(lines: list[Line], factor: float) -> list[Line]:
    return [(factor * first_s, factor * growth_s) for first_s, growth_s in lines]


class CohortRuns(Cohort):
    """Engines whose stretches of steps end at a sum in closed form, on exclusive hardware; arguments: see `Cohort`."""

    def __init__(self, core: Core, lockstep: LockStep, longest: int) -> None:
        super().__init__(core, lockstep, longest)
        self._own = [core.pass_cost(self.forward(team, "own", Batch())) for team in lockstep.teams]
        self._experts = core.pass_cost(self.forward(lockstep.teams[0], "experts", Batch()))
        self._exchange = core.pass_cost(self.forward(lockstep.everyone, "exchange", Batch()))
        self._times = StretchTimes([StepTimes(0.0, 0.0, 0.0)], Shared(0.0, 0.0, 1), 0.0, lockstep, overlapped=False)
        self._anchor_s, self._to = 0.0, 0

    def begin(self, steps: int) -> None:
        """Work out when the stretch ends."""
        self._times, self._to = self.times(), steps
        self._anchor_s = max(self.env._now, *(each.device.free_at_s for each in self.running))
        self._arm()

    def times(self) -> StretchTimes:
        """Durations of steps from now on."""
        most = max(each.batch.tokens for each in self.running)
        halves = 2 if self.lockstep.halves and most >= FEWEST_IN_HALVES else 1
        own = []
        for each in self.running:
            cost = self._own[self.lockstep.teams.index(each.team)]
            if halves == 1:
                own.append(cost.times(each.now_batch, each.more, 0.0))
            else:
                half = cost.times(each.now_batch.part(2), each.more.part(2), 0.0)
                half.follow(cost.times(each.now_batch.part(2), each.more.part(2), 0.0))
                own.append(half)
        mean, exchanged = self.loads()
        experts_s, _ = self._experts.seconds(mean.part(halves))
        _, exchange_s = self._exchange.seconds(exchanged.part(halves))
        shared = Shared(halves * experts_s, halves * exchange_s, halves, self._overlapped_s(most), self.moved_s)
        return StretchTimes(own, shared, self.host_s, self.lockstep, overlapped=self.overlapped)

    def _overlapped_s(self, most: float) -> float:
        """Duration of the shared experts for the largest number of tokens of a rank."""
        if self.lockstep.shared is None:
            return 0.0
        seconds, exchange_s = self.core.pass_cost(self.forward(self.lockstep.teams[0], "shared", Batch())).seconds(
            Batch(most)
        )
        return seconds + exchange_s

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
        _, exchanged = self.loads()
        tally.passed(self.forward(self.lockstep.everyone, "exchange", exchanged), exchanged, steps)
        for place, each in enumerate(self.running):
            each.device.free_at_s = ended_s
            each.device.busy_s += times.computing_s(place, steps)
            if each.team.size > 1:
                tally.passed(self.forward(each.team, "own", each.batch), each.batch, steps)
            if self.probes.steps:
                batch = each.batch
                each.log.add(batch.tokens, batch.decode_sequences, self._anchor_s, 0, steps, times.steps)
        for each in self.members:
            if each not in self.running:  # but its GPUs compute for the others
                each.device.busy_s += steps * times.shared.experts_s
        if self.probes.operation:
            self._tell(steps)

    def _tell(self, steps: int) -> None:
        """Report the parts of each step, one after another."""
        shared, hooks = self._times.shared, self.probes.operation
        mean, exchanged = self.loads()
        for step in range(steps):
            started_s = self._anchor_s + self._times.steps.elapsed(step)
            ended_s = self._anchor_s + self._times.steps.elapsed(step + 1)
            met_s = max(started_s, ended_s - ordered_sum((shared.waited_s, shared.experts_s)))
            back_s = min(ended_s, met_s + shared.waited_s)
            for each in self.running:
                op = self.forward(each.team, "own", each.now_batch.grown(step, each.more), each.host_s)
                for hook in hooks:
                    hook(op, started_s, met_s)
            for team in self.lockstep.teams:
                for hook in hooks:
                    hook(self.forward(team, "experts", mean), back_s, ended_s)
            for hook in hooks:
                hook(self.forward(self.lockstep.everyone, "exchange", exchanged), met_s, back_s)
