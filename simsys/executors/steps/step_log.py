"""Reports of the steps of a serving team to the probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from simsys.costs.step_times import StepTimes
from simsys.ops import Operation

if TYPE_CHECKING:
    from simsys.executors.core import Core

NUMBERS = 6 * 512
"""Number of recorded values before a report."""

Run = tuple[float, float, float, float, float, float]
"""Record of a run for `Probe.steps`."""


class StepLog:
    """Reports steps to the probes, many runs at once.

    Args:
        executor: The executor with the probes.
        rank: The first rank of the team.
    """

    def __init__(self, executor: Core, rank: int) -> None:
        self._executor, self._rank = executor, rank
        self.runs: list[float] = []
        """Recorded and unreported values."""
        executor.at_result(self.tell)

    def add(self, tokens: float, decoding: float, started_s: float, first: int, steps: int, times: StepTimes) -> None:
        """Record a number of steps of a batch from `first` on, which began at `started_s`."""
        runs = self.runs
        for run in stretches(tokens, decoding, started_s, first, steps, times):
            runs += run
        if len(runs) >= NUMBERS:
            self.tell()

    def add_each(self, tokens: float, decoding: float, started_s: float, ends_s: Sequence[float]) -> None:
        """Record consecutive steps of a batch, which may have any durations."""
        runs, prompts = self.runs, tokens - decoding
        for end_s in ends_s:
            runs += (started_s, 1, decoding, prompts, end_s - started_s, 0.0)
            started_s = end_s
        if len(runs) >= NUMBERS:
            self.tell()

    def tell(self) -> None:
        """Report the recorded steps."""
        runs = self.runs.copy()
        self.runs.clear()
        if runs:
            for hook in self._executor.probes.steps:
                hook(self._rank, runs)


def tell_each(
    hooks: Sequence[Callable[[Operation, float, float], None]],
    ops: Iterable[Operation],
    started_s: float,
    ends_s: Iterable[float],
) -> None:
    """Report operations to `Probe.operation`, of which each begins when the one before ends."""
    for op, ended_s in zip(ops, ends_s, strict=True):
        for hook in hooks:
            hook(op, started_s, ended_s)
        started_s = ended_s


def stretches(
    tokens: float, decoding: float, started_s: float, first: int, steps: int, times: StepTimes
) -> Iterator[Run]:
    """One entry per stretch with constant growth of durations, for a number of steps from `first` on."""
    end, prompts = first + steps, tokens - decoding
    if not times.breakpoints:
        yield started_s, steps, decoding, prompts, times.first_s + times.growth_s * first, times.growth_s
        return
    begun_s = times.elapsed(first)
    for stop in times.stretches(first, end):
        first_s = times.duration(first)
        growth_s = times.duration(first + 1) - first_s if stop > first + 1 else 0.0
        offset_s = times.elapsed(first) - begun_s
        yield started_s + offset_s, stop - first, decoding, prompts, first_s, growth_s
        first = stop
