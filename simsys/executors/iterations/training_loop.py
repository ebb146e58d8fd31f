"""The loop over training iterations: work between iterations, and iterations that need not be simulated again."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from simsys.executors.cycles import rounding_of
from simsys.executors.executor import Executor
from simsys.executors.iterations.at_rest import RankState, at_rest, rank_states
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.executors.iterations.kinds import Kind, runs
from simsys.framework import TrainingFramework, TrainingPlan

MORE = 10
"""By how much iterations may differ more than cycles: the rounding of a cycle counts as often as it is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Iterations with the same work.

    Args:
        start: The first of them; they end where the next phase starts.
        plans: The work of a step, for each framework.
        load_s: How long a rank loads the batches of one iteration.
    """

    start: int
    plans: tuple[TrainingPlan, ...]
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Iteration:
    """Times of an iteration: waiting for data, work, and stop for a checkpoint.

    Args:
        index: Its number, from 0.
        data_s: Time of waiting for batches.
        work_s: From then to the end of the last rank's step.
        checkpoint_s: Stop after that.
        busy_s: Computation time of each rank's GPU.
        sent_bytes: Bytes sent, by account of the communication graph.
        leads_to_same: Whether the next one of its kind is known to equal it, since it ends as it began.
    """

    index: int
    data_s: float
    work_s: float
    checkpoint_s: float
    busy_s: tuple[float, ...]
    sent_bytes: tuple[float, ...]
    leads_to_same: bool = False

    @property
    def seconds(self) -> float:
        """Total duration in seconds."""
        return self.data_s + self.work_s + self.checkpoint_s

    def same_as(self, other: Iteration, end_s: float) -> bool:
        """True if another iteration that ended at about `end_s` has equal parts, except for rounding."""
        rounding_s = MORE * rounding_of(self.seconds, end_s)
        mine, others = ((each.data_s, each.work_s, each.checkpoint_s) for each in (self, other))
        return all(abs(a_s - b_s) <= rounding_s for a_s, b_s in zip(mine, others, strict=True))


class KnownIterations:
    """The kinds of iterations that are known well enough to be repeated instead of simulated.

    Args:
        executor: Knows whether it may repeat iterations, when its hardware changes, and when other jobs use its links.
        repeatable: Whether equal iterations of a kind may follow.
    """

    def __init__(self, executor: Executor, *, repeatable: bool) -> None:
        self._executor = executor
        self.repeatable = repeatable and executor.may_repeat and not executor.compute_speed.iterations_vary
        """Whether any iteration may be repeated."""
        self._latest: dict[Kind, Iteration] = {}
        self._known: dict[Kind, Iteration] = {}
        self._change_s = executor.platform.next_change_s(0.0)
        self._alike = executor.firsts_alike is True and math.isinf(self._change_s)

    def repeat(self, kind: Kind, now_s: float, most: int) -> tuple[Iteration | None, int]:
        """An iteration of a kind, and how many of `most` like it end before hardware or other jobs change its time."""
        if now_s >= self._change_s:
            self._latest.clear()
            self._known.clear()
            self._change_s = self._executor.platform.next_change_s(now_s)
        like = self._known.get(kind)
        if like is None:
            return None, most
        until_s = min(self._change_s, self._executor.alone_until_s())
        if math.isinf(until_s):
            return like, most
        return like, max(0, min(most, int((until_s - now_s) / like.seconds)))

    def add(self, kind: Kind, now: Iteration, end_s: float, alone_until_s: float) -> None:
        """An iteration has been simulated, and ended at a time; with other jobs on its links, it is like no other."""
        if end_s > alone_until_s:
            return
        executor, before = self._executor, self._latest.get(kind)
        self._latest[kind] = now
        same = now.leads_to_same if before is None else now.same_as(before, end_s)
        if (before is not None or same) and executor.firsts_alike is not False:
            executor.firsts_alike = same
        if self.repeatable and (same or self._alike):
            self._known[kind] = now


class TrainingLoop:
    """Runs iterations of all ranks in sequence.

    An iteration begins and ends for all ranks together, since the loss and the norm of the gradients are reduced over
    all of them.

    Args:
        executor: The executor.
        frameworks: The training step of every representative rank, with the plans of the first phase.
        phases: The phases in order; the first starts at 0.
        prefetch: True if the batches of an iteration are loaded during the previous one, after that one got its own;
            otherwise at its beginning.
        checkpoints: Times of checkpoints, or None.
    """

    def __init__(
        self,
        executor: Executor,
        frameworks: Sequence[TrainingFramework],
        phases: Sequence[Phase],
        *,
        prefetch: bool = False,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._executor, self._env = executor, executor.env
        self._frameworks, self._ranks = frameworks, [framework.rank.index for framework in frameworks]
        self._phases, self._phase = phases, phases[0]
        self._prefetch = prefetch
        self._checkpoints = checkpoints
        self._done = 0
        self._end_s = executor.env.now
        self._last: Iteration | None = None
        self._ahead = False  # of the clock, by repeated iterations

    def run(self, count: int, *, repeatable: bool) -> Generator[Any, Any, None]:
        """The process of `count` iterations.

        Args:
            count: Number of iterations.
            repeatable: True if an iteration's work depends on its phase alone. Then, after two equal ones of a kind on
                constant hardware, all further ones are equal, too; used if the level of detail allows it. One suffices
                if it ends as it began, with nothing under way, or if another run has shown that the first is like the
                others.
        """
        known = KnownIterations(self._executor, repeatable=repeatable)
        interval = self._checkpoints.interval if self._checkpoints else 0
        for kind, length in runs(count, [phase.start for phase in self._phases], interval, linked=self._prefetch):
            left = length
            while left:
                like, repeated = known.repeat(kind, self._end_s, left)
                if like is not None and repeated:
                    self._repeat(kind, like, repeated)
                    left -= repeated
                    continue
                yield from self._catch_up()
                alone_until_s = self._executor.alone_until_s()
                known.add(
                    kind, (yield from self._simulate(kind, repeatable=known.repeatable)), self._end_s, alone_until_s
                )
                left -= 1
        if self._end_s > self._env.now:
            yield self._env.at(self._end_s)

    def _simulate(self, kind: Kind, *, repeatable: bool) -> Generator[Any, Any, Iteration]:
        self._enter(self._phases[kind.phase])
        executor, ranks, start_s = self._executor, self._ranks, self._end_s
        counts = repeatable and executor.alone_until_s() > start_s
        busy_s, sent_bytes = executor.busy_seconds(ranks), executor.sent_bytes() if counts else []
        states = rank_states(executor, ranks)
        executor.compute_speed.begin_iteration()
        executor.cycles.begin(wanted=repeatable and executor.undisturbed(start_s))
        self._mark("iteration_start")
        data_s = self._waiting_seconds()
        if data_s:
            yield executor.pause(ranks, start_s + data_s)
            self._mark("data_loaded")
        for rank in ranks:
            executor.synchronize(rank)
        yield self._env.all_of(
            [self._executor.run(framework.rank.index, framework.step()) for framework in self._frameworks]
        )
        worked_s = self._end_s = executor.align(ranks)
        if left_out_s := executor.cycles.end():
            worked_s = self._end_s = worked_s + left_out_s
            yield executor.pause(ranks, worked_s)
        if kind.checkpoint and self._checkpoints is not None:
            self._mark("checkpoint")
            self._end_s = self._checkpoints.save(worked_s)
            yield executor.pause(ranks, self._end_s)
        self._mark("iteration_end")
        busy_s = [after - before for before, after in zip(busy_s, executor.busy_seconds(ranks), strict=True)]
        sent_after = executor.sent_bytes() if counts else []
        sent = tuple(after - before for before, after in zip_longest(sent_bytes, sent_after, fillvalue=0.0))
        work_s, checkpoint_s = worked_s - start_s - data_s, self._end_s - worked_s
        self._last = Iteration(self._done, data_s, work_s, checkpoint_s, tuple(busy_s), sent)
        if repeatable and not kind.checkpoint and self._ends_as_it_began(states, data_s):
            self._last = replace(self._last, leads_to_same=True)
        self._done += 1
        return self._last

    def _ends_as_it_began(self, states: Sequence[RankState], data_s: float) -> bool:
        """Whether an iteration that has just ended leaves all as it found it.

        Args:
            states: The states of the ranks at its beginning.
            data_s: How long it has waited for data.
        """
        executor, ranks = self._executor, self._ranks
        alike = all(framework.data_parallel.same_first_step for framework in self._frameworks)
        alike = alike and executor.undisturbed(0.0) and self._waiting_seconds() == data_s
        return alike and at_rest(executor, self._end_s) and states == rank_states(executor, ranks)

    def _repeat(self, kind: Kind, like: Iteration, count: int) -> None:
        """Report further iterations of a kind, like one that was simulated."""
        self._end_s = self._executor.repeat(
            self._ranks,
            count,
            like=like.index,
            iteration_s=like.seconds,
            busy_s=like.busy_s,
            sent_bytes=like.sent_bytes,
        )
        if kind.checkpoint and self._checkpoints is not None:
            self._checkpoints.saved(self._end_s)
        self._done += count
        self._last, self._ahead = like, True

    def _catch_up(self) -> Generator[Any, Any, None]:
        """Let the clock follow repeated iterations."""
        if self._ahead:
            self._ahead = False
            yield self._env.at(self._end_s)

    def _enter(self, phase: Phase) -> None:
        """Give the frameworks the work of a phase, if it has just begun."""
        if phase is not self._phase:
            self._phase = phase
            for framework, plan in zip(self._frameworks, phase.plans, strict=True):
                framework.load(plan)

    def _waiting_seconds(self) -> float:
        """Time of waiting for the batches of the next iteration."""
        hidden_s = self._last.work_s + self._last.checkpoint_s if self._prefetch and self._last else 0.0
        return max(0.0, self._phase.load_s - hidden_s)

    def _mark(self, name: str) -> None:
        for rank in self._ranks:
            self._executor.mark(rank, name)
