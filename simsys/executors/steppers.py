"""Consecutive steps of a serving team: one after another, or a run of them as one event."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING

from simpy.events import NORMAL, Event

from simsys.executors.step_times import StepTimes
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.environment import At, Callback

if TYPE_CHECKING:
    from simsys.executors.base import Executor
    from simsys.executors.tally import Tally

NAME = "step"
"""The name of the passes, for observers."""


class Passes:
    """Every step is a forward pass of its own, after which the team is asked again.

    Args:
        executor: Carries out the passes.
        team: The ranks.
        plan: One rank's share of the model.
        done: Called after a run of steps, with their number.
    """

    def __init__(self, executor: Executor, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> None:
        self._executor, self._env = executor, executor.env
        self._team, self._plan, self._done = team, plan, done
        self._batch = Batch()
        self._started_s = 0.0

    def run(self, batch: Batch, steps: int, *, host_s: float, more_pairs: float = 0.0) -> None:
        """Start the first of at most so many steps."""
        self._batch, self._started_s = batch, self._env._now
        event = self._executor.start(Forward(self._team, self._plan, batch, host_s, NAME))
        if event.callbacks is None:  # it took no time
            event = At(self._env, self._env._now)
        event.callbacks.append(self._ended)

    def cut(self) -> None:
        """The team is asked after every step anyway."""

    def passed(self) -> int:
        """Nothing has passed that has not been told."""
        return 0

    def _ended(self, _: Event) -> None:
        batch, started_s, now_s = self._batch, self._started_s, self._env._now
        decoding, step_s = int(batch.decode_sequences), now_s - started_s
        for hook in self._executor.probes.steps:
            hook(self._team.ranks[0], started_s, now_s, 1, decoding, int(batch.tokens) - decoding, step_s, step_s)
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
        longest: float,
    ) -> None:
        self._executor, self._env = executor, executor.env
        self._team, self._plan, self._done = team, plan, done
        self._tally = tally if team.size > 1 else None
        self._longest = longest
        self._op = Forward(team, plan, Batch(), 0.0, NAME)
        self._cost = executor.pass_cost(self._op)
        self._device = executor.platform.devices[team.ranks[0]]
        self._collective_s = executor.communicator(team).seconds
        # Boundaries of several teams at one moment come in the order of their ranks, after all that arrives.
        self._priority = NORMAL + 1 + team.ranks[0]
        self._batch, self._more_pairs, self._host_s = Batch(), 0.0, 0.0
        self._times = StepTimes(0.0, 0.0, 0.0)
        self._anchor_s = 0.0
        self._from = self._to = 0  # steps since the anchor: those told, and those under way
        self._due_s = -1.0
        self._callbacks: list[Callback] = [self._fire]
        self._tick = Event(self._env)
        self._tick._ok, self._tick._value = True, None

    def run(self, batch: Batch, steps: int, *, host_s: float, more_pairs: float = 0.0) -> None:
        """Start a run of at most so many steps."""
        if not self._goes_on(batch, more_pairs, host_s):
            self._batch, self._more_pairs, self._host_s = batch, more_pairs, host_s
            self._times = self._cost.step_times(batch, more_pairs, host_s, self._collective_s)
            self._anchor_s, self._from = max(self._env._now, self._device.free_at_s), 0
        self._to = self._from + (steps if steps <= self._longest else int(self._longest))
        self._arm()

    def cut(self) -> None:
        """End the run at the first boundary that is not before now."""
        to = self._times.boundary(self._anchor_s, self._env._now, self._from + 1, self._to)
        if to < self._to:
            self._to = to
            self._arm()

    def passed(self) -> int:
        """How many steps of the run have ended before now."""
        return self._times.boundary(self._anchor_s, self._env._now, self._from + 1, self._to) - 1 - self._from

    def _arm(self) -> None:
        """An earlier time that stays in the queue is passed over."""
        env, tick = self._env, self._tick
        tick.callbacks = self._callbacks
        self._due_s = due_s = self._anchor_s + self._times.elapsed(self._to)
        heappush(env._queue, (due_s, self._priority, next(env._eid), tick))

    def _goes_on(self, batch: Batch, more_pairs: float, host_s: float) -> bool:
        """Whether a batch follows from the steps so far, at once."""
        steps, old = self._from, self._batch
        if batch.tokens != old.tokens or batch.logits != old.logits or self._due_s != self._env._now:
            return False
        return batch == self._after(steps) and more_pairs == self._more_pairs and host_s == self._host_s

    def _after(self, steps: int) -> Batch:
        """The batch of a step, counted from the anchor."""
        first = self._batch
        return first._replace(
            attention_pairs=first.attention_pairs + steps * self._more_pairs,
            prompt_context_tokens=first.prompt_context_tokens + steps * (first.tokens - first.decode_sequences),
            decode_context_tokens=first.decode_context_tokens + steps * first.decode_sequences,
        )

    def _fire(self, _: Event) -> None:
        self._tick.callbacks = self._callbacks
        if self._env._now != self._due_s or self._from == self._to:
            return
        first, end, times = self._from, self._to, self._times
        self._from = end
        steps = end - first
        self._device.free_at_s = self._env._now
        self._device.busy_s += times.elapsed(end) - times.elapsed(first) - steps * times.idle_s
        if self._tally is not None:
            self._tally.passed(self._op, self._batch, steps)
        if self._executor.probes.operation:
            self._tell_passes(first, end)
        if self._executor.probes.steps:
            self._tell_steps(first, end)
        self._done(steps)

    def _tell_steps(self, first: int, end: int) -> None:
        batch, times, anchor_s = self._batch, self._times, self._anchor_s
        decoding = int(batch.decode_sequences)
        prompt_tokens = int(batch.tokens) - decoding
        for start, stop in times.linear(first, end):
            for hook in self._executor.probes.steps:
                hook(
                    self._team.ranks[0],
                    anchor_s + times.elapsed(start),
                    anchor_s + times.elapsed(stop),
                    stop - start,
                    decoding,
                    prompt_tokens,
                    times.duration(start),
                    times.duration(stop - 1),
                )

    def _tell_passes(self, first: int, end: int) -> None:
        started_s = self._anchor_s + self._times.elapsed(first)
        for step in range(first, end):
            ended_s = self._anchor_s + self._times.elapsed(step + 1)
            op = Forward(self._team, self._plan, self._after(step), self._host_s, NAME)
            for hook in self._executor.probes.operation:
                hook(op, started_s, ended_s)
            started_s = ended_s
