"""Durations of consecutive steps of one batch with growing context: their sum in closed form.

The time of a kernel is the largest of its bounds (memory, arithmetic, a fixed floor), and each bound is linear in the
cached tokens, which grow by a constant per step. So the duration of step i is linear in i up to the steps at which
another bound becomes the largest (breakpoints), and a sum of durations is a sum of arithmetic series.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import ceil, floor, inf, sqrt

Line = tuple[float, float]
"""Value at step 0, and growth per step; both in seconds."""


class StepTimes:
    """Durations of step 0, 1, 2 … of a batch.

    Args:
        first_s: Duration of the first step, before any breakpoint.
        growth_s: By how much each step is longer than the one before.
        idle_s: What of each step is no computation: host time before it and communication within it.
    """

    __slots__ = ("breakpoints", "even", "first_s", "growth_s", "idle_s", "work")

    def __init__(self, first_s: float, growth_s: float, idle_s: float) -> None:
        self.first_s, self.growth_s, self.idle_s = first_s, growth_s, idle_s
        self.breakpoints: list[tuple[int, float, float]] = []
        """Steps from which on durations are longer by a line, counted from step 0: (step, intercept, growth)."""
        self.work: StepTimes | None = None
        """Computation of the GPUs in these steps, if some steps last longer."""
        self.even = True
        """Whether there are neither breakpoints nor such `work`."""

    def add(self, bounds: Sequence[Line]) -> None:
        """Add kernels with the largest of some bounds as duration."""
        current = max(bounds)
        self.first_s += current[0]
        self.growth_s += current[1]
        for bound in bounds:
            if bound[1] > current[1]:
                self._add_kinks(bounds, current)
                break

    def add_larger(self, one_s: float, one_growth_s: float, other_s: float, other_growth_s: float) -> None:
        """Add a kernel with the larger of two bounds as duration: each at step 0, and its growth per step."""
        if one_s >= other_s and one_growth_s >= other_growth_s:  # and so it stays
            self.first_s += one_s
            self.growth_s += one_growth_s
        elif other_s >= one_s and other_growth_s >= one_growth_s:
            self.first_s += other_s
            self.growth_s += other_growth_s
        else:
            self.add([(one_s, one_growth_s), (other_s, other_growth_s)])

    def follow(self, other: StepTimes) -> None:
        """Append to each step one of the other steps, which consist of computation only."""
        self.first_s += other.first_s
        self.growth_s += other.growth_s
        self.idle_s += other.idle_s
        self.breakpoints += other.breakpoints
        self.even = self.even and other.even

    def _add_kinks(self, bounds: Sequence[Line], current: Line) -> None:
        """Find the breakpoints."""
        while steeper := [bound for bound in bounds if bound[1] > current[1]]:
            step = min(_overtaken(current, bound) for bound in steeper)
            if step == inf:
                return
            overtaking = max(steeper, key=lambda bound: (bound[0] + step * bound[1], bound[1]))
            self.breakpoints.append((int(step), overtaking[0] - current[0], overtaking[1] - current[1]))
            self.even = False
            current = overtaking

    def at_least(self, least_s: float) -> StepTimes:
        """A copy with a lower limit of the duration of each step: the host time for the next one."""
        if self.first_s >= least_s:  # since they grow
            return self
        longer = StepTimes(least_s, 0.0, self.idle_s)
        longer.work, longer.even = copy(self), False
        starts = sorted({0, *(breakpoint for breakpoint, _, _ in self.breakpoints)})
        for start, end in zip(starts, [*starts[1:], inf], strict=True):
            fixed_s, growth_s = self.line(start)
            step = max(start, _overtaken((least_s, 0.0), (fixed_s, growth_s)) if growth_s > 0.0 else inf)
            if step < end:
                later = [breakpoint for breakpoint in self.breakpoints if breakpoint[0] > step]
                longer.breakpoints = [(int(step), fixed_s - least_s, growth_s), *later]
                break
        return longer

    def computing_s(self, first: int, end: int, seconds: float) -> float:
        """Computation time of GPUs in the steps from `first` up to `end`, from their total duration."""
        if self.work is None:
            return seconds - (end - first) * self.idle_s
        return self.work.computing_s(first, end, self.work.elapsed(end) - self.work.elapsed(first))

    def elapsed(self, steps: int) -> float:
        """Total duration of the first `steps` steps in seconds."""
        total_s = steps * self.first_s + self.growth_s * (steps * (steps - 1) * 0.5)
        for breakpoint, more_s, growth_s in self.breakpoints:
            if breakpoint < steps:
                total_s += (steps - breakpoint) * more_s + growth_s * (
                    (steps - breakpoint) * (breakpoint + steps - 1) * 0.5
                )
        return total_s

    def duration(self, step: int) -> float:
        """Duration of one step in seconds, counted from 0."""
        seconds = self.first_s + self.growth_s * step
        for breakpoint, more_s, growth_s in self.breakpoints:
            if breakpoint <= step:
                seconds += more_s + growth_s * step
        return seconds

    def at_rate(self, rate: float) -> StepTimes:
        """A copy at a rate below 1."""
        if rate == 1.0:
            return self
        slower = StepTimes(self.first_s / rate, self.growth_s / rate, self.idle_s / rate)
        slower.work, slower.even = self.work and self.work.at_rate(rate), self.even
        slower.breakpoints = [
            (breakpoint, more_s / rate, growth_s / rate) for breakpoint, more_s, growth_s in self.breakpoints
        ]
        return slower

    def line(self, step: int) -> Line:
        """The durations from a step on, up to the next breakpoint, as a line."""
        fixed_s, slope_s = self.first_s, self.growth_s
        for breakpoint, more_s, growth_s in self.breakpoints:
            if breakpoint <= step:
                fixed_s += more_s
                slope_s += growth_s
        return fixed_s, slope_s

    def stretches(self, first: int, end: int) -> Sequence[int]:
        """The ends of stretches of the steps from `first` up to `end` within which durations grow evenly."""
        if not self.breakpoints:
            return (end,)
        return [*sorted({breakpoint for breakpoint, _, _ in self.breakpoints if first < breakpoint < end}), end]

    def passed(self, anchor_s: float, time_s: float, first: int, last: int, now: bool) -> int:
        """Number of steps from the first to the last that have ended before a time, or at it if `now`."""
        to, end_s = self.boundary(anchor_s, time_s, first + 1, last)
        if now and end_s == time_s:
            to += 1
        return to - 1 - first

    def boundary(self, anchor_s: float, time_s: float, first: int, last: int) -> tuple[int, float]:
        """The first boundary at or after a time: its number of steps, and when it is.

        Args:
            anchor_s: When step 0 begins.
            time_s: The time.
            first: The least number.
            last: The greatest.
        """
        if self.breakpoints:
            low, high = first, last
            while low < high:
                middle = (low + high) // 2
                if anchor_s + self.elapsed(middle) >= time_s:
                    high = middle
                else:
                    low = middle + 1
            return low, anchor_s + self.elapsed(low)
        first_s, growth_s = self.first_s, self.growth_s
        half_s = growth_s * 0.5
        linear_s = first_s - half_s
        seconds = time_s - anchor_s
        # About how many steps fit into a time: the root of a quadratic. The loops settle what rounding leaves open.
        root_s = linear_s + sqrt(linear_s * linear_s + 4.0 * half_s * seconds)
        steps = ceil(2.0 * seconds / root_s) if root_s > 0.0 else first
        if steps > last:
            steps = last
        if steps < first:
            steps = first
        end_s = anchor_s + (steps * first_s + growth_s * (steps * (steps - 1) * 0.5))
        while steps > first:
            before = steps - 1
            before_s = anchor_s + (before * first_s + growth_s * (before * (before - 1) * 0.5))
            if before_s < time_s:
                break
            steps, end_s = before, before_s
        while steps < last and end_s < time_s:
            steps += 1
            end_s = anchor_s + (steps * first_s + growth_s * (steps * (steps - 1) * 0.5))
        return steps, end_s


def _overtaken(current: Line, other: Line) -> float:
    """The first step at which a steeper line is above the current one."""
    step = (current[0] - other[0]) / (other[1] - current[1])
    return floor(step) + 1 if step < 1e15 else inf
