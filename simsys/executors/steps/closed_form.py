"""Multi-step runs with their end as a sum in closed form, on exclusive hardware."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from simsys.costs.step_times import StepTimes
from simsys.executors.steps.passes import NAME
from simsys.executors.steps.step_log import NUMBERS, StepLog, tell_each
from simsys.model.batch import NOTHING, Batch
from simsys.ops import Forward
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.events import boundary

if TYPE_CHECKING:
    from simsys.executors.core import Core
    from simsys.executors.tally import Tally


DecodeCosts = tuple[float, float, float, StepTimes]
"""The context from which steps are linear in it and as long as the host needs; constant, slope; any such times."""


class ClosedFormRuns:
    """Multi-step runs that end at the sum of their steps' durations; an entry of the environment's agenda.

    Time is anchored: boundary j is at the start of the first step plus the sum of the first j durations, while every
    batch follows from the previous one. So it does not matter where a run is cut.

    Args:
        executor: The executor, with costs of passes.
        team: The ranks.
        plan: One rank's share of the model.
        done: Called at the end of a run of steps, with their number.
        tally: Counts traffic of passes.
        longest: Longest run; 1 for single steps, with equal times.
    """

    __slots__ = (
        "_anchor_s",
        "_batch",
        "_context",
        "_cost",
        "_decode_costs",
        "_device",
        "_done",
        "_ending",
        "_env",
        "_evenly",
        "_from",
        "_host_s",
        "_log",
        "_longest",
        "_more",
        "_moved",
        "_op",
        "_overlapped",
        "_plainly",
        "_plan",
        "_probes",
        "_runs",
        "_sequences",
        "_single",
        "_started_s",
        "_tally",
        "_team",
        "_times",
        "_to",
        "_tokens",
        "due_s",
        "priority",
    )

    def __init__(
        self, executor: Core, team: Group, plan: ForwardPass, done: Callable[[int], None], tally: Tally, longest: int
    ) -> None:
        self._env, self._probes = executor.env, executor.probes
        self._team, self._plan, self._done = team, plan, done
        self._tally = tally if team.size > 1 else None
        self._longest = longest
        self._overlapped = executor.model.async_scheduling  # whether the host overlaps with the pass
        self._op = Forward(team, plan, Batch(), 0.0, NAME)
        self._cost = executor.pass_cost(self._op)
        self._device = executor.platform.devices[team.ranks[0]]
        self._batch: Batch | None = None
        self._more, self._host_s = NOTHING, 0.0
        self._evenly = False  # whether a batch may follow from the current one
        self._tokens: float = 0  # of each step
        self._sequences: float = 0  # that decode
        self._context: float = 0  # of the first step, where there are no prompts
        self._decode_costs: dict[int, DecodeCosts] = {}
        self._single = self._times = StepTimes(0.0, 0.0, 0.0)  # the former for all single steps
        self._log = StepLog(executor, team.ranks[0])
        self._runs = self._log.runs
        # Whether runs with evenly growing durations need no other record than a row.
        self._plainly = bool(executor.probes.steps) and not executor.probes.operation and self._tally is None
        self._anchor_s = 0.0
        # Steps since the anchor: booked ones, and current ones with their start.
        self._from = self._to = 0
        self._started_s = -1.0
        self._ending = False  # whether a run ends now, so that the next one begins now
        self.due_s, self.priority = inf, int(boundary(team.ranks[0]))
        self._moved = executor.env.agenda.add(self)

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start a run of at most this number of steps."""
        if (
            self._evenly
            and self._ending
            and batch[0] == self._tokens
            and host_s == self._host_s
            and more == self._more
            and batch == self._after(self._from)
        ):
            self._go_on(steps)
            return
        self._batch, self._more, self._host_s = batch, more, host_s
        self._tokens, self._sequences = batch[0], batch[5] or 0  # a column of whole numbers grows faster
        self._evenly = steps > 1  # of a single step, how it would grow is not known
        times = self._durations(batch, steps, 0.0 if self._overlapped else host_s)
        self._begin(times if times.first_s >= host_s else self._at_least(times, host_s), steps)

    def _durations(self, batch: Batch, steps: int, before_s: float) -> StepTimes:
        """Durations of steps that begin with a batch."""
        if steps > 1:
            return self._cost.times(batch, self._more, before_s)
        compute_s, exchange_s = self._cost.seconds(batch)
        times = self._single
        times.idle_s = idle_s = exchange_s + before_s
        times.first_s = compute_s + idle_s
        return times

    def _at_least(self, times: StepTimes, host_s: float) -> StepTimes:
        """A host beside the pass may need longer than it; before it, it is part of the step."""
        return times.at_least(host_s) if self._overlapped else times

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start a run of at most this number of steps without prompts."""
        if follows and self._evenly:
            self._go_on(steps)
            return
        self._batch, self._evenly, self._host_s = None, True, host_s
        self._tokens = self._sequences = sequences
        self._context = context_tokens
        costs = self._decode_costs
        found = costs[sequences] if sequences in costs else self._costs_of(sequences, host_s)
        linear_from, fixed_s, per_token_s, times = found
        if context_tokens >= linear_from:
            times.first_s = fixed_s + per_token_s * context_tokens
        else:
            before_s = 0.0 if self._overlapped else host_s
            times = self._cost.times(self._after(0), Batch(decode_context_tokens=sequences), before_s)
            times = times if times.first_s >= host_s else self._at_least(times, host_s)
        self._begin(times, steps)

    def _costs_of(self, sequences: int, host_s: float) -> DecodeCosts:
        """Costs of steps of a number of sequences, cached from now on."""
        found = self._cost.costs(sequences, sequences, False, sequences == 1)
        idle_s = found.exchange_s + (0.0 if self._overlapped else host_s)
        fixed_s, per_token_s = found.compute_s + found.steepest_s + idle_s, found.per_token_s
        linear_from = found.steepest_from
        if fixed_s < host_s:
            linear_from = max(linear_from, (host_s - fixed_s) / per_token_s + 1.0 if per_token_s else inf)
        costs = linear_from, fixed_s, per_token_s, StepTimes(0.0, per_token_s * sequences, idle_s)
        self._decode_costs[sequences] = costs
        return costs

    def _begin(self, times: StepTimes, steps: int) -> None:
        """Begin a run with known durations."""
        if steps > self._longest:
            steps = self._longest
        self._times, self._from, self._to = times, 0, steps
        started_s, ending = self._env._now, self._ending
        if not ending and self._device.free_at_s > started_s:
            started_s = self._device.free_at_s
        self._anchor_s = self._started_s = started_s
        if steps == 1:  # breakpoints come later
            self.due_s = started_s + times.first_s
        else:
            total_s = steps * times.first_s + times.growth_s * (steps * (steps - 1) * 0.5)
            self.due_s = started_s + (total_s if times.even else times.elapsed(steps))
        if not ending:
            self._moved()

    def _go_on(self, steps: int) -> None:
        self._started_s = self._env._now
        self._to = self._from + (steps if steps <= self._longest else self._longest)
        self._end_at(self._boundary_s(self._to))

    def _end_at(self, time_s: float) -> None:
        self.due_s = time_s
        if not self._ending:
            moved = self._moved
            moved()

    def cut(self, later: bool = False) -> int:
        """End the run at the first boundary that is not before now, or at the one after it."""
        first, end_s = self._next_boundary(later)
        if first < self._to:
            self._to = first
            self._end_at(end_s)
        return 0 if first > self._to else first - self._from

    def next_s(self) -> float | None:
        """When the step under way ends."""
        return self._next_boundary()[1]

    def _next_boundary(self, later: bool = False) -> tuple[int, float]:
        """The first boundary not before now, or the one after it: its number since the anchor, and when it is."""
        env, now_s, to = self._env, self._env._now, self._to
        first, end_s = self._times.boundary(self._anchor_s, now_s, self._from + 1, to)
        # At the very moment of a boundary, it has been already if ends come before the event under way.
        further = later + (end_s == now_s and first < to and env.priority >= self.priority)
        if not further:
            return first, end_s
        first += further
        return first, self._anchor_s + self._times.elapsed(first) if first <= to else inf

    def passed(self) -> int:
        """Number of steps of the run that have ended before the current event."""
        env, times = self._env, self._times  # by place, as calls with names are slower
        return times.passed(self._anchor_s, env._now, self._from, self._to, env.priority >= self.priority)

    def stop(self) -> int:
        """End now, with the steps that have ended; return how many of the run have."""
        first, end, last = self._from, self._from + self.passed(), self._to
        self._to, self.due_s = first, inf
        self._moved()
        if first < end:
            self._book(first, end, self._boundary_s(end))
        if end < last:
            self._book_work(end)
        return end - first

    def _book_work(self, step: int, rate: float = 1.0) -> None:
        """Of the step under way, GPUs may have done their part already."""
        work = self._times.work
        if work is None or self._boundary_s(step) + work.duration(step) / rate > self._env._now:
            return
        self._device.busy_s += work.computing_s(step, step + 1, work.duration(step))
        if self._tally is not None:
            self._count(self._tally, 1)

    def _boundary_s(self, steps: int) -> float:
        """The end of a number of steps since the anchor."""
        return self._anchor_s + self._times.elapsed(steps)

    def _after(self, steps: int) -> Batch:
        """The batch of a step, counted from the anchor."""
        first = self._batch
        if first is None:
            size = self._sequences
            return Batch(size, size, 0.0, 0, self._context + steps * size, size)
        return first.grown(steps, self._more)

    def happen(self) -> float:
        """The run under way ends now."""
        first, end, times = self._from, self._to, self._times
        steps, ended_s = end - first, self.due_s
        self._from, self.due_s, self._ending = end, inf, True
        if self._plainly and times.even:
            device, started_s, decoding = self._device, self._started_s, self._sequences
            device.free_at_s = ended_s
            device.busy_s += ended_s - started_s - steps * times.idle_s
            runs, growth_s = self._runs, times.growth_s
            first_s = times.first_s + growth_s * first if first else times.first_s
            runs += (started_s, steps, decoding, self._tokens - decoding, first_s, growth_s)
            if len(runs) >= NUMBERS:
                self._log.tell()
        else:
            self._book(first, end, ended_s)
        done = self._done
        done(steps)
        self._ending = False
        return self.due_s

    def _book(self, first: int, end: int, ended_s: float) -> None:
        """Note that steps have ended."""
        times, device, started_s, steps = self._times, self._device, self._started_s, end - first
        device.free_at_s = ended_s
        device.busy_s += times.computing_s(first, end, ended_s - started_s)
        if self._tally is not None:
            self._count(self._tally, steps)
        if self._probes.operation:
            self._tell_passes(first, end)
        if self._probes.steps:
            self._log.add(self._tokens, self._sequences, started_s, first, steps, times)

    def _count(self, tally: Tally, steps: int) -> None:
        """Count the traffic of this number of steps like the first step since the anchor."""
        tally.passed(self._op, self._after(0), steps)

    def _tell_passes(self, first: int, end: int) -> None:
        ops = (Forward(self._team, self._plan, self._after(step), self._host_s, NAME) for step in range(first, end))
        ends_s = (self._boundary_s(step + 1) for step in range(first, end))
        tell_each(self._probes.operation, ops, self._started_s, ends_s)
