"""Durations of the steps of data-parallel ranks that share their experts.

The own part of each rank is the largest of some lines in the number of the step, and the slowest rank decides. So a
pass is the largest of all these lines, plus the experts' part and the exchange, which do not change. A step is the sum
of its passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simsys.costs.step_times import Line, StepTimes
from simsys.executors.steps.rounds import Round
from simsys.ops import Forward
from simsys.sums import ordered_sum


class Shared(NamedTuple):
    """Durations of the parts of a pass that all ranks share, both halves if there are two.

    Args:
        experts_s: The experts' part.
        exchange_s: The exchange.
        halves: Number of parts of each batch, 1 or 2.
        overlapped_s: Shared experts, which are computed during the exchange.
        occupied: Share of a GPU that the exchange keeps from the computation beside it.
    """

    experts_s: float
    exchange_s: float
    halves: int
    overlapped_s: float = 0.0
    occupied: float = 0.0

    @property
    def waited_s(self) -> float:
        """From the beginning of the exchange to the experts' part."""
        return max(self.exchange_s, self.overlapped_s + self.delay_s) if self.overlapped_s else self.exchange_s

    @property
    def delay_s(self) -> float:
        """By how much the exchange delays the computation beside it."""
        return self.occupied * self.exchange_s


class RoundTimes(NamedTuple):
    """Durations of a pass in each step of a stretch.

    Two halves take turns on two resources. With C and D the times of computation and communication of both, and o the
    share of a GPU that communication occupies, each of L layers takes max(C + o D, D) / L; the first computation and
    the last communication of a half overlap with nothing.

    Args:
        round: The pass.
        own: The own parts of the ranks that have work in it, by their places among those that run.
        shared: What they share.
    """

    round: Round
    own: dict[int, StepTimes]
    shared: Shared

    def follow(self, times: StepTimes) -> None:
        """Append the pass to each step."""
        shared = self.shared
        lines = [line for each in self.own.values() for line in _lines(each)]
        times.idle_s += shared.waited_s
        if shared.halves == 1:
            times.add(lines)
            times.first_s += shared.experts_s + shared.waited_s
        else:
            alone = self.round.lockstep.alone
            computing = [(first + shared.experts_s, growth) for first, growth in lines]
            together = [(first + shared.delay_s, growth) for first, growth in computing]
            times.add([*_scaled(together, 1.0 - alone), ((1.0 - alone) * shared.exchange_s, 0.0)])
            times.add(_scaled(computing, alone))
            times.first_s += alone * shared.exchange_s

    def duration(self, step: int) -> float:
        """Duration of the pass in a step."""
        times = StepTimes(0.0, 0.0, 0.0)
        self.follow(times)
        return times.duration(step)

    def computing_s(self, place: int, steps: int) -> float:
        """For how long the GPUs of a running rank compute in the first steps."""
        own, shared = self.own.get(place), self.shared
        if own is None:
            return steps * shared.experts_s
        return own.elapsed(steps) + steps * (shared.experts_s + shared.overlapped_s - own.idle_s)


class StretchTimes:
    """Durations of a stretch.

    Args:
        rounds: The passes of a step.
        before_s: Time before the first one.
        host_s: Host time beside the passes, if the host works during the step before.
    """

    def __init__(self, rounds: list[RoundTimes], before_s: float, host_s: float = 0.0) -> None:
        self.rounds = rounds
        times = StepTimes(before_s, 0.0, before_s)
        for each in rounds:
            each.follow(times)
        self.steps = times.at_least(host_s) if host_s else times
        """Of the steps."""

    def computing_s(self, place: int, steps: int) -> float:
        """For how long the GPUs of a running rank compute in the first steps."""
        return ordered_sum(each.computing_s(place, steps) for each in self.rounds)

    @property
    def experts_s(self) -> float:
        """The experts' part of a step, in which the GPUs of ranks without requests compute, too."""
        return ordered_sum(each.shared.experts_s for each in self.rounds)


def operations_of_step(
    rounds: Sequence[RoundTimes], step: int, started_s: float, ended_s: float, hosts_s: Sequence[float]
) -> Iterator[tuple[Forward, float, float]]:
    """The operations of a step in order of the passes, each with its start and its end.

    Args:
        rounds: The passes.
        step: The step, counted from the beginning of the stretch.
        started_s: When it started.
        ended_s: When it ended.
        hosts_s: Host time of each running rank.
    """
    starts_s = [ended_s]
    for each in reversed(rounds[1:]):
        starts_s.append(max(started_s, starts_s[-1] - each.duration(step)))
    starts_s.append(started_s)
    starts_s.reverse()
    for (found, _, shared), begun_s, over_s in zip(rounds, starts_s[:-1], starts_s[1:], strict=True):
        met_s = max(begun_s, over_s - ordered_sum((shared.waited_s, shared.experts_s)))
        back_s = min(over_s, met_s + shared.waited_s)
        for place, team, batch, more in found.works:
            host_s = hosts_s[place] if found is rounds[0].round else 0.0
            yield found.forward(team, "own", batch.grown(step, more), host_s), begun_s, met_s
        if found.lockstep.exchange.stretches:
            mean, exchanged = found.loads()
            for team in found.lockstep.teams:
                yield found.forward(team, "experts", mean), back_s, over_s
            yield found.forward(found.lockstep.everyone, "exchange", exchanged), met_s, back_s


def _lines(times: StepTimes) -> list[Line]:
    """The lines of which durations are the largest: they grow faster from each breakpoint on."""
    if not times.breakpoints:
        return [(times.first_s, times.growth_s)]
    return [times.line(step) for step in (0, *(breakpoint for breakpoint, _, _ in times.breakpoints))]


def _scaled(lines: list[Line], factor: float) -> list[Line]:
    return [(factor * first_s, factor * growth_s) for first_s, growth_s in lines]
