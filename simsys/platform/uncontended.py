"""Uncontended collectives: one event for any number of ranks and steps.

An uncontended collective needs no simulation: the network knows the duration of each step on idle links, and no step
leaves a link busy beyond its end, so the times add up. When another transfer starts on one of its links, the network
materialises its exact state (current step, progress of transfers), and the collective continues step by step until it
is uncontended again. Links stay claimed between collectives, so that the next one on these links has a constant cost.

If links change at known times, step durations are computed for each epoch between changes. A collective in progress at
a change is materialised, too, and continues step by step until it claims its links in their new state.

Times equal those of the steps except for rounding of sums (t0 + k·d instead of d added k times). At equal times, steps
of the collective with the claim come before transfers that start then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heappush
from typing import Generic, Protocol

import simpy
from simpy.events import Event

from simsys.platform.claims import Claim
from simsys.platform.events import LATE, At, Callback, processed
from simsys.platform.link_schedule import LinkSchedule, Prepared, Step, SteppedRun
from simsys.sums import ordered_sum


class UncontendedNetwork(Protocol[Prepared]):
    """The interface of a network for uncontended collectives."""

    env: simpy.Environment

    @abstractmethod
    def begin(self, transfers: Prepared, nbytes: float, pause_s: float = 0.0) -> Event:
        """Begin transfers, as `Network.begin`."""

    @abstractmethod
    def step_seconds(self, transfers: Prepared, nbytes: float, time_s: float = 0.0) -> float:
        """Durations of steps, as `Network.step_seconds`."""

    @abstractmethod
    def claim(self, steps: Sequence[Step[Prepared]]) -> Claim:
        """The claim on all links of some steps; equal links share one claim."""

    @abstractmethod
    def resume(self, step: Step[Prepared], started_s: float) -> Event:
        """Materialise the transfers of an uncontended step that began at `started_s`.

        Returns:
            An event for the end of the step, as from `begin`.
        """

    @abstractmethod
    def count(self, step: Step[Prepared], times: int, time_s: float) -> None:
        """Record a repeated step on idle links, in their state at a given time."""

    @abstractmethod
    def remember(self, schedule: UncontendedSchedule[Prepared]) -> None:
        """Register a schedule to `settle` before traffic counters are read."""


class UncontendedSchedule(LinkSchedule[Prepared]):
    """A schedule that claims its links when it starts.

    Args:
        network: The network.
        steps: The steps, in order.
    """

    def __init__(self, network: UncontendedNetwork[Prepared], steps: Iterable[Step[Prepared]]) -> None:
        super().__init__(network.env, steps, network.begin)
        self._network = network
        self._claim = network.claim(self.steps)
        self.complete_runs = [0] * len(self._claim.starts_s)
        """Runs that the links do not know of yet, by epoch."""
        self._step_s: dict[int, list[float]] = {}  # by epoch
        self._total_s: dict[int, float] = {}
        self._started = False
        self._begun = processed(network.env)
        self.steady = len(self._claim.starts_s) == 1
        """Whether the links never change."""
        self.again: UncontendedRun[Prepared] | None = None
        """One that has ended and can be repeated."""

    def start(self, done: Callback) -> None:
        """Carry it out from now on, in one event if the links are quiet."""
        run, claim = self.again, self._claim
        if run is not None and claim.held and claim.run is None:
            # As below, reusing objects: most collectives follow equal ones.
            self.again, claim.run, run.done = None, run, done
            run.started_s = now = self.env._now
            run.end_s = now + run.seconds
            run.arm()
            return
        epoch = self._claim.epoch(self.env._now)
        if self.steps and self._rehearsed(epoch) and self._claim.take():
            self._run_quietly(done, 0, 0, epoch, self._total_s[epoch])
        else:  # that the links are in use has just been seen
            self._claim.calm(undisturbed=False)
            LinkSchedule.go_on(self, SteppedRun(self, done), self._begun)

    def go_on(self, run: SteppedRun[Prepared], ended: Event) -> None:
        """Claim the links again if they seem uncontended; else start the next step."""
        if self._step_s and run.index < len(self.steps):
            epoch = self._claim.epoch(self.env._now)
            step_s = self._step_seconds(epoch)
            if self._claim.calm(self._undisturbed(run, step_s)) and self._claim.take():
                self._run_quietly(run.done, run.index, run.taken, epoch, self._seconds_left(run, step_s))
                return
        super().go_on(run, ended)

    def interrupt(self, run: UncontendedRun[Prepared]) -> None:
        """Continue an uncontended run step by step, from its current state."""
        run.cancelled = True
        index, taken, started_s = self._position(run)
        self.count_between(run, index, taken)
        stepped = SteppedRun(self, run.done, index, taken)
        step = stepped.advance()
        assert step is not None
        stepped.started_s = started_s
        self._network.resume(step, started_s).callbacks.append(stepped.go_on)

    def settle(self) -> None:
        """Record all complete runs on the links."""
        for epoch, runs in enumerate(self.complete_runs):
            for step in self.steps:
                self._network.count(step, runs * step.repeat, self._claim.starts_s[epoch])
            self.complete_runs[epoch] = 0

    def _rehearsed(self, epoch: int) -> bool:
        """True if step durations on idle links are known; they are not computed if this would not pay."""
        if epoch in self._total_s:
            return True
        if not self._started and all(step.repeat == 1 for step in self.steps):
            self._started = True  # a rehearsal is as much work as the thing itself: it pays from the second time on
            return False
        if not self._step_s:
            self._network.remember(self)
        step_s = self._step_seconds(epoch)
        self._total_s[epoch] = ordered_sum(
            step.repeat * seconds for step, seconds in zip(self.steps, step_s, strict=True)
        )
        return True

    def _step_seconds(self, epoch: int) -> list[float]:
        """Durations of the steps on idle links in an epoch."""
        found = self._step_s.get(epoch)
        if found is None:
            start_s = self._claim.starts_s[epoch]
            found = self._step_s[epoch] = [
                self._network.step_seconds(step.transfers, step.nbytes, start_s) + step.pause_s for step in self.steps
            ]
        return found

    def _run_quietly(self, done: Callback, index: int, taken: int, epoch: int, seconds: float) -> None:
        now, claim = self.env._now, self._claim
        run = claim.run = UncontendedRun(self, claim, done, index, taken, now, seconds, epoch)
        if epoch + 1 < len(claim.starts_s) and claim.starts_s[epoch + 1] < run.end_s:
            At(self.env, claim.starts_s[epoch + 1], run.changed)  # before its end, which may come sooner after that
            return
        run.arm()

    def _seconds_left(self, run: SteppedRun[Prepared], step_s: Sequence[float]) -> float:
        """Duration of the remaining steps on idle links."""
        left_s = -run.taken * step_s[run.index]
        for index in range(run.index, len(self.steps)):
            left_s += self.steps[index].repeat * step_s[index]
        return left_s

    def _undisturbed(self, run: SteppedRun[Prepared], step_s: Sequence[float]) -> bool:
        """True if the last step was uncontended."""
        now, alone_s = self.env._now, step_s[run.index if run.taken else run.index - 1]
        return now - run.started_s - alone_s <= 1e-9 * alone_s + 1e-15 * now

    def _position(self, run: UncontendedRun[Prepared]) -> tuple[int, int, float]:
        """The step that a quiet run is in: its place in `steps`, how many equal ones came before, when it began."""
        now, start_s, step_s = self.env._now, run.started_s, self._step_s[run.epoch]
        index, taken = run.index, run.taken
        while index + 1 < len(self.steps):
            end_s = start_s + (self.steps[index].repeat - taken) * step_s[index]
            if end_s > now:
                break
            index, taken, start_s = index + 1, 0, end_s
        seconds, last = step_s[index], self.steps[index].repeat - taken - 1
        passed = min(last, int((now - start_s) / seconds)) if seconds else 0
        while passed < last and start_s + (passed + 1) * seconds <= now:
            passed += 1
        while passed and start_s + passed * seconds > now:
            passed -= 1
        return index, taken + passed, start_s + passed * seconds

    def count_between(self, run: UncontendedRun[Prepared], index: int, taken: int) -> None:
        """Record the steps of an uncontended run up to a position on the links."""
        for place in range(run.index, min(index + 1, len(self.steps))):
            step = self.steps[place]
            first = run.taken if place == run.index else 0
            times = (taken if place == index else step.repeat) - first
            self._network.count(step, times, self._claim.starts_s[run.epoch])


class UncontendedRun(Generic[Prepared]):
    """An uncontended schedule.

    Args:
        schedule: The schedule.
        claim: The claim on its links.
        done: Called at the end.
        index: Index in ``schedule.steps`` of its first step.
        taken: Number of earlier repetitions of this step.
        started_s: Start time.
        seconds: Duration if uncontended.
        epoch: Number of earlier changes of the links.
    """

    __slots__ = (
        "_callbacks",
        "_claim",
        "_end",
        "_env",
        "cancelled",
        "done",
        "end_s",
        "epoch",
        "index",
        "schedule",
        "seconds",
        "started_s",
        "taken",
    )

    def __init__(
        self,
        schedule: UncontendedSchedule[Prepared],
        claim: Claim,
        done: Callback,
        index: int,
        taken: int,
        started_s: float,
        seconds: float,
        epoch: int = 0,
    ) -> None:
        self.schedule, self._claim, self.done = schedule, claim, done
        self.index, self.taken = index, taken
        self.started_s, self.end_s, self.epoch = started_s, started_s + seconds, epoch
        self.cancelled = False
        self.seconds = seconds
        self._callbacks: list[Callback] = [self.ended]
        self._env = schedule.env
        self._end = Event(schedule.env)
        self._end._ok, self._end._value = True, None

    def arm(self) -> None:
        """Let it end when its time is over."""
        env, end = self._env, self._end
        end.callbacks = self._callbacks
        heappush(env._queue, (self.end_s, LATE, next(env._eid), end))

    def interrupt(self) -> None:
        """Continue step by step from now on."""
        self.schedule.interrupt(self)

    def ended(self, event: Event) -> None:
        """The time is over: done, unless another transfer came in between."""
        if not self.cancelled:
            self._claim.ended(self)
            schedule = self.schedule
            if self.index or self.taken:
                schedule.count_between(self, len(schedule.steps), 0)
            else:
                schedule.complete_runs[self.epoch] += 1
                if schedule.steady:
                    schedule.again = self
            self.done(event)

    def changed(self, _: Event) -> None:
        """Handle a change of the links since its start."""
        if not self.cancelled:
            self._claim.give_way()
