"""Multi-step runs on shared links, in closed form at a rate that changes with the load of other users."""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import Any

from simsys.costs.step_times import StepTimes
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.platform.occupant import Footprint, Occupant

DRIFT = 0.005
"""Relative growth of steps up to which the load of the first one is used."""

ROUNDING = 1e-12
"""Of the work since the anchor: when the rate changes, a step with less work left has ended. Rates change several
times at one moment, and a division by each would round differently."""


class OccupiedRuns(ClosedFormRuns):
    """Steps that occupy the links of the team evenly with their collectives.

    Arguments as for `ClosedFormRuns`.

    The load of a step is that of the first step since the anchor, and the anchor moves before this is too inexact. So
    all rates are constant while no batch changes, and the end of every step is known. Boundary j is the time at which
    the work of j steps on idle links, minus the work done at the last change of rate, is done at the current rate. It
    does not matter whether steps are events.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        executor, team = args[0], args[1]
        self._communicator = executor.communicator(team)
        self._occupancy = executor.platform.network.occupancy
        self._presence = _Presence(self)
        self._there = False  # on the links
        self._loads: dict[tuple[float, float], tuple[list[tuple[Footprint, float]], int, float]] = {}
        self._parts: list[tuple[Footprint, float]] = []  # of each step
        self._rate, self._since_s, self._worked_s = 1.0, 0.0, 0.0  # the start of the rate, and the work done before
        self._booked = self._last = 0  # steps since the anchor: those that are booked, the last that keeps its load

    def slow_down(self, rate: float) -> None:
        """Continue at another rate."""
        now_s, under_way = self._env._now, self._from < self._to
        if now_s > self._since_s:
            if under_way:
                self._book_until(self._ended())
            self._worked_s += (now_s - self._since_s) * self._rate
            self._since_s = now_s
        self._rate = rate
        if under_way:
            self._end_at(self._boundary_s(self._to))

    def passed(self) -> int:
        """Number of steps of the run that have ended before the current event."""
        return self._ended() - self._from

    def stop(self) -> int:
        """End now, with the steps that have ended, and leave the links; return how many of the run have."""
        first, end = self._from, self._ended()
        self._book_until(end)
        if end < self._to:
            self._book_work(end, self._rate)
        self._from = self._to = end
        self.due_s = inf
        self._moved()
        self._leave()
        return end - first

    def next_s(self) -> float | None:
        """Unknown, since it depends on other users of the links."""
        return None

    def cut(self, later: bool = False) -> int:
        """End the run at the first boundary that is not before now."""
        to = self._from + 1 + self.passed()
        if to < self._to:
            self._to = to
            self._end_at(self._boundary_s(to))
        return 0

    def _begin(self, times: StepTimes, steps: int) -> None:
        """Begin a run with known durations."""
        now_s, free_at_s = self._env._now, self._device.free_at_s
        self._times = times
        self._anchor_s = self._started_s = self._since_s = now_s if now_s >= free_at_s else free_at_s
        self._worked_s = 0.0
        self._from = self._to = self._booked = 0
        self._occupy(times.duration(0))
        most_s = times.duration(0) * (1.0 + DRIFT)
        self._last = 1 + bisect_right(range(1, steps), most_s, key=times.duration)
        self._run(steps)

    def _go_on(self, steps: int) -> None:
        self._run(steps)

    def _run(self, steps: int) -> None:
        self._to = min(self._from + min(steps, self._longest), self._last)
        self._end_at(self._boundary_s(self._to))

    def _occupy(self, seconds: float) -> None:
        """Update the load on the links, in steps of a duration on idle links."""
        batch = self._after(0)
        key = batch.tokens, batch.logits
        found = self._loads.get(key)
        if found is None:
            found = self._loads[key] = self._communicator.link_loads.of(self._cost.exchanges(batch))
        self._parts, steps, sent_bytes = found
        pace = self._occupancy.pace(steps, sent_bytes, seconds)
        before_s = 0.0 if self._overlapped else self._host_s
        duty_cycle = (self._times.idle_s - before_s) / seconds
        if self._there:
            self._occupancy.change(self._presence, self._parts, seconds, pace, duty_cycle)
        else:
            self._there = True
            self._presence.load(self._parts, seconds, pace, duty_cycle)
            self._occupancy.join(self._presence)

    def _leave(self) -> None:
        if self._there:
            self._there = False
            self._occupancy.leave(self._presence)
            self._evenly = False

    def _boundary_s(self, steps: int) -> float:
        end_s = self._times.elapsed(steps)
        left_s = end_s - self._worked_s
        return self._since_s + (left_s / self._rate if left_s > ROUNDING * end_s else 0.0)

    def _ended(self) -> int:
        """Number of steps since the anchor that have ended before the current event."""
        now_s, first, last = self._env._now, self._booked + 1, self._to
        if first > last or now_s < self._since_s:
            return self._booked
        worked_s = self._worked_s + (now_s - self._since_s) * self._rate
        steps, _ = self._times.boundary(0.0, worked_s, first, last)
        # Correct rounding errors at the first boundary that is not before now.
        while steps > first and self._boundary_s(steps - 1) >= now_s:
            steps -= 1
        while steps < last and self._boundary_s(steps) < now_s:
            steps += 1
        if self._env.priority >= self.priority and self._boundary_s(steps) == now_s:
            steps += 1
        return steps - 1

    def happen(self) -> float:
        """The run under way ends now."""
        first, end = self._from, self._to
        self._from, self.due_s = end, inf
        self._book_until(end)
        if end == self._last:
            self._evenly = False  # what comes next begins at a new anchor
        self._ending = True
        done = self._done
        done(end - first)
        self._ending = False
        if self._from == self._to:
            self._leave()
        return self.due_s

    def _book_until(self, end: int) -> None:
        """Book the steps up to one that have not been booked."""
        if self._booked < end:
            self._book(self._booked, end, self._boundary_s(end))

    def _book(self, first: int, end: int, ended_s: float) -> None:
        steps, times = end - first, self._times
        self._device.free_at_s = ended_s
        self._device.busy_s += times.computing_s(first, end, times.elapsed(end) - times.elapsed(first))
        for footprint, nbytes in self._parts:
            footprint.account.nbytes += steps * nbytes
        if self._tally is not None:
            self._count(self._tally, steps)
        if self._probes.operation:
            self._tell_passes(first, end)
        if self._probes.steps:
            self._note(first, end)
        self._booked, self._started_s = end, ended_s

    def _note(self, first: int, end: int) -> None:
        """Note that steps have ended, the first of which may have begun at another rate."""
        started_s, times = self._started_s, self._times
        if started_s < self._since_s:
            ended_s = self._boundary_s(first + 1)
            self._log.add_each(self._tokens, self._sequences, started_s, (ended_s,))
            first, started_s = first + 1, ended_s
        if first < end:
            times = times.at_rate(self._rate)
            self._log.add(self._tokens, self._sequences, started_s, first, end - first, times)


class _Presence(Occupant):
    """The occupant of a team on its links.

    Args:
        runs: Runs of the team.
    """

    __slots__ = ("_runs",)

    def __init__(self, runs: OccupiedRuns) -> None:
        super().__init__()
        self._runs = runs

    def go_on(self, rate: float) -> None:
        """Change the rate of the current steps."""
        self.rate = rate
        self._runs.slow_down(rate)
