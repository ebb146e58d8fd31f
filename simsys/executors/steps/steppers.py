"""Consecutive steps of a serving team: one after another, or a run of them as one event."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.executors.steps.express import Express, express
from simsys.executors.steps.signals import NEVER_AGAIN
from simsys.executors.steps.step_log import StepLog
from simsys.executors.steps.step_times import StepTimes
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.environment import At, Recurring, boundary

if TYPE_CHECKING:
    from simsys.executors.base import Executor
    from simsys.executors.tally import Tally
    from simsys.serving.replica import Replica
    from simsys.serving.source import Source

NAME = "step"
"""The name of the passes, for observers."""


PassOn = Callable[[Batch, float], Event]
"""Passes a batch through a model, after so many seconds of host work; the event fires at the end."""


class Passes:
    """Every step is a forward pass of its own, after which the team is asked again.

    Args:
        executor: Carries out the passes.
        rank: The first rank of the team.
        forward: Passes a batch through the model, after so many seconds of host work.
        done: Called after a run of steps, with their number.
        beside: Whether the host works beside the pass, and not before it.
    """

    def __init__(
        self, executor: Executor, rank: int, forward: PassOn, done: Callable[[int], None], *, beside: bool = False
    ) -> None:
        self._executor, self._env = executor, executor.env
        self._forward, self._done, self._beside = forward, done, beside
        self._batch = Batch()
        self._started_s = self._host_ends_s = 0.0
        self._stopped = False
        self._log = StepLog(executor, rank)

    def decode(self, sequences: int, context_tokens: int, steps: int, host_s: float) -> None:
        """The same without prompts."""
        self.run(Batch(sequences, sequences, 0.0, 0, context_tokens, sequences), steps, host_s)

    def run(self, batch: Batch, steps: int, host_s: float, more_pairs: float = 0.0) -> None:
        """Start the first of at most so many steps."""
        self._batch, self._started_s = batch, self._env._now
        self._host_ends_s = self._started_s + host_s if self._beside else 0.0
        event = self._forward(batch, 0.0 if self._beside else host_s)
        if event.callbacks is None:  # it took no time
            event = At(self._env, self._env._now)
        event.callbacks.append(self._ended)

    def hasten(self, replica: Replica, source: Source) -> None:
        """There is an event for every step anyway."""

    def cut(self) -> None:
        """The team is asked after every step anyway."""

    def passed(self) -> int:
        """Nothing has passed that has not been told."""
        return 0

    def stop(self) -> int:
        """End now, without the step under way."""
        self._stopped = True
        return 0

    def _ended(self, _: Event) -> None:
        if self._stopped:
            return
        if self._env._now < self._host_ends_s:
            At(self._env, self._host_ends_s, self._ended)
            return
        if self._executor.probes.steps:
            times = StepTimes(self._env._now - self._started_s, 0.0, 0.0)
            self._log.add(self._batch.tokens, self._batch.decode_sequences, self._started_s, 0, 1, times)
        self._done(1)


class Jump:
    """A run of steps is one event, at the end of a sum in closed form.

    Time is anchored: boundary j is at the start of the first step plus the sum of the first j durations, as long as
    every batch follows from the one before. So it does not matter at which boundaries a run is cut.

    Args:
        executor: Knows what passes cost.
        team: The ranks.
        plan: One rank's share of the model.
        done: Called at the end of a run of steps, with their number.
        tally: Counts what the passes send.
        longest: Longest run that is one event: 1 to step through all of them, with the same times.
    """

    def __init__(
        self,
        executor: Executor,
        team: Group,
        plan: ForwardPass,
        done: Callable[[int], None],
        tally: Tally,
        longest: int,
    ) -> None:
        self._env, self._probes = executor.env, executor.probes
        self._team, self._plan, self._done = team, plan, done
        self._tally = tally if team.size > 1 else None
        self._longest, self._at_result = longest, executor.at_result
        self._beside = executor.model.async_scheduling  # whether the host works beside the pass, and not before it
        self._op = Forward(team, plan, Batch(), 0.0, NAME)
        self._cost = executor.pass_cost(self._op)
        self._device = executor.platform.devices[team.ranks[0]]
        self._collective_s = executor.communicator(team).seconds
        self._priority = boundary(team.ranks[0])
        self._batch: Batch | None = None
        self._more_pairs = self._host_s = 0.0
        self._tokens: float = 0  # of each step
        self._sequences: float = 0  # that decode
        self._context = 0  # of the first step, where there are no prompts
        self._decode_costs: dict[int, tuple[float, float, float, float]] = {}
        self._even = self._times = StepTimes(0.0, 0.0, 0.0)  # the former of all runs whose durations grow evenly
        self._log = StepLog(executor, team.ranks[0])
        self._anchor_s = 0.0
        # Steps since the anchor: those that have been told, and those under way besides; and when these begin and end.
        self._from = self._to = 0
        self._started_s = self._due_s = -1.0
        self._tick = Recurring(self._env, self._fire)
        self._express: Express | None = None
        self._ahead = False  # whether the run that is started next needs no event of its own

    def hasten(self, replica: Replica, source: Source) -> None:
        """Do what is between the steps in one loop, where all parts are known that take part in it."""
        self._express = express(self, replica, source) if self._longest > 1 else None
        if self._express is not None:
            self._at_result(self._express.end)

    def run(self, batch: Batch, steps: int, host_s: float, more_pairs: float = 0.0) -> None:
        """Start a run of at most so many steps."""
        if (
            batch.tokens == self._tokens
            and host_s == self._host_s
            and more_pairs == self._more_pairs
            and self._due_s == self._env._now
            and batch == self._after(self._from)
        ):
            self._go_on(steps)
            return
        self._batch, self._more_pairs, self._host_s = batch, more_pairs, host_s
        self._tokens, self._sequences, self._context = batch.tokens, batch.decode_sequences, 0
        before_s, least_s = (0.0, host_s) if self._beside else (host_s, 0.0)
        if steps > 1:
            times = self._cost.step_times(batch, more_pairs, before_s, self._collective_s)
            self._times = times.at_least(least_s)
            self._begin(steps)
            return
        compute_s, exchange_s = self._cost.step_seconds(*batch[:6], self._collective_s)
        times = self._even
        times.idle_s = idle_s = exchange_s + before_s
        times.first_s = compute_s + idle_s
        times.growth_s = 0.0
        self._times = times.at_least(least_s)
        self._begin(1)
        self._host_s = NEVER_AGAIN  # since how it would grow is not known

    def decode(self, sequences: int, context_tokens: int, steps: int, host_s: float) -> None:
        """Start a run of at most so many steps without prompts."""
        if (
            sequences == self._tokens
            and context_tokens == self._context + self._from * sequences
            and self._due_s == self._env._now
            and host_s == self._host_s
            and self._more_pairs == 0.0
        ):
            self._go_on(steps)
            return
        self._batch, self._more_pairs, self._host_s = None, 0.0, host_s
        self._tokens = self._sequences = sequences
        self._context = context_tokens
        costs = self._decode_costs.get(sequences)
        if costs is None:
            costs = self._costs_of(sequences)
        steepest_from, fixed_s, per_token_s, exchange_s = costs
        before_s, least_s = (0.0, host_s) if self._beside else (host_s, 0.0)
        if context_tokens >= steepest_from:
            times = self._even
            times.first_s = fixed_s + per_token_s * context_tokens + before_s
            times.growth_s, times.idle_s = per_token_s * sequences, exchange_s + before_s
        else:
            times = self._cost.step_times(self._after(0), 0.0, before_s, self._collective_s)
        self._times = times.at_least(least_s)
        self._begin(steps)

    def _costs_of(self, sequences: int) -> tuple[float, float, float, float]:
        """What steps of so many sequences cost from a context on: that, a constant, per token, and for collectives."""
        found = self._cost.step_costs(sequences, sequences, False, self._collective_s, alone=sequences == 1)
        fixed_s = found.compute_s + found.exchange_s + found.steepest_s
        costs = found.steepest_from, fixed_s, found.per_token_s, found.exchange_s
        self._decode_costs[sequences] = costs
        return costs

    def _begin(self, steps: int) -> None:
        """A run whose durations are known now begins."""
        now_s, free_at_s, times = self._env._now, self._device.free_at_s, self._times
        self._anchor_s = self._started_s = started_s = now_s if now_s >= free_at_s else free_at_s
        self._from = 0
        self._to = to = steps if steps <= self._longest else self._longest
        self._due_s = due_s = started_s + (times.first_s if to == 1 and not times.kinks else times.elapsed(to))
        if not self._ahead:
            self._tick.arm(due_s, self._priority)

    def _go_on(self, steps: int) -> None:
        self._started_s = self._due_s
        self._to = self._from + (steps if steps <= self._longest else self._longest)
        self._arm()

    def cut(self) -> None:
        """End the run at the first boundary that is not before now."""
        to = self._from + 1 + self.passed()
        if to < self._to:
            self._to = to
            self._arm()

    def passed(self) -> int:
        """How many steps of the run have ended before what happens now."""
        env = self._env
        return self._times.passed(self._anchor_s, env._now, self._from, self._to, now=env.priority >= self._priority)

    def stop(self) -> int:
        """End now, with the steps that have ended; return how many of the run have."""
        first, end, last = self._from, self._from + self.passed(), self._to
        self._to, self._due_s = first, -1.0
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
            self._tally.passed(self._op, self._after(0))

    def _boundary_s(self, steps: int) -> float:
        """When so many steps since the anchor have ended."""
        return self._anchor_s + self._times.elapsed(steps)

    def _arm(self) -> None:
        """A time that is in the queue already is passed over."""
        self._due_s = self._boundary_s(self._to)
        if not self._ahead:
            self._tick.arm(self._due_s, self._priority)

    def _after(self, steps: int) -> Batch:
        """The batch of a step, counted from the anchor."""
        first = self._batch
        if first is None:
            size = self._sequences
            return Batch(size, size, 0.0, 0, self._context + steps * size, size)
        return first._replace(
            attention_pairs=first.attention_pairs + steps * self._more_pairs,
            prompt_context_tokens=first.prompt_context_tokens + steps * (first.tokens - first.decode_sequences),
            decode_context_tokens=first.decode_context_tokens + steps * first.decode_sequences,
        )

    def _fire(self, _: Event) -> None:
        """End the run, unless that has happened."""
        self._tick.callbacks = self._tick.actions
        if self._env._now != self._due_s or self._from == self._to or (self._express and self._express.open):
            return  # the run was cut, or has ended
        if self._longest == 1:
            self._end()
            return
        self._end_runs()

    def _end_runs(self) -> None:
        """End the run that is due now, and those that follow as long as nothing else comes before they end."""
        self._ahead = True
        express = self._express
        while True:
            if express is None or not express.fits():
                self._end()
            elif express.go():
                break
            if self._from == self._to:
                break
            if not self._goes_on():
                self._tick.arm(self._due_s, self._priority)
                break
        self._ahead = False

    def follow(self) -> None:
        """Go on after the loop, with the run that has been begun, if any."""
        if self._from != self._to:
            if self._goes_on():
                self._end_runs()
                return
            self._tick.arm(self._due_s, self._priority)
        self._ahead = False

    def _end(self) -> None:
        """The run under way ends now."""
        first, end = self._from, self._to
        self._from = end
        self._book(first, end, self._env._now)
        self._done(end - first)

    def _book(self, first: int, end: int, ended_s: float) -> None:
        """Note that steps have ended."""
        steps, started_s, times = end - first, self._started_s, self._times
        device, probes = self._device, self._probes
        device.free_at_s = ended_s
        device.busy_s += times.computing_s(first, end, ended_s - started_s)
        if self._tally is not None:
            self._tally.passed(self._op, self._after(0), steps)
        if probes.operation:
            self._tell_passes(first, end)
        if probes.steps:
            self._log.add(self._tokens, self._sequences, started_s, first, steps, times)

    def _goes_on(self) -> bool:
        """Whether the run that has begun can end now, as nothing comes before it; what is brief happens on the way."""
        env, priority = self._env, self._priority
        queue, due_s = env._queue, self._due_s
        while queue:
            time_s, urgency, _, event = queue[0]
            if time_s > due_s or (time_s == due_s and urgency > priority):
                break
            if event is self._tick:  # a run that was cut
                heappop(queue)
            elif type(event) is Recurring and event.brief:
                heappop(queue)
                env._now, env.priority = time_s, urgency
                event.action(event)
                due_s = self._due_s
            else:
                return False
        env._now, env.priority = due_s, priority
        return True

    def _tell_passes(self, first: int, end: int) -> None:
        started_s = self._started_s
        for step in range(first, end):
            ended_s = self._boundary_s(step + 1)
            op = Forward(self._team, self._plan, self._after(step), self._host_s, NAME)
            for hook in self._probes.operation:
                hook(op, started_s, ended_s)
            started_s = ended_s
