"""What the probes are told of the steps of a serving team."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from struct import pack
from typing import TYPE_CHECKING

from simsys.executors.steps.step_times import StepTimes

if TYPE_CHECKING:
    from simsys.executors.base import Executor
    from simsys.serving.kv_cache import PagedKVCache

NUMBERS = 6 * 512
"""How many numbers are noted before the probes are told."""
FEW, MANY = 8 * 64, 8 * 2048
"""Of the numbers that a loop keeps, fewer are told later, and more at once."""
NO_NOTE = -1
"""In place of the blocks that were taken, where no note is to be made of the engine."""

Run = tuple[float, float, float, float, float, float]
"""What `Probe.steps` tells of a run of steps."""


class StepLog:
    """What the probes are told of steps: many runs at once, since there are so many.

    Args:
        executor: Knows the probes.
        rank: The first rank of the team.
    """

    def __init__(self, executor: Executor, rank: int) -> None:
        self._executor, self._rank = executor, rank
        self.runs: list[float] = []
        """What has been noted and not been told."""
        executor.at_result(self.tell)

    def add(self, tokens: float, decoding: float, started_s: float, first: int, steps: int, times: StepTimes) -> None:
        """Note so many steps of a batch, from `first` on, which began at `started_s`."""
        runs = self.runs
        for run in stretches(tokens, decoding, started_s, first, steps, times):
            runs += run
        if len(runs) >= NUMBERS:
            self.tell()

    def add_each(self, tokens: float, decoding: float, started_s: float, ends_s: Sequence[float]) -> None:
        """Note steps of a batch, each of which begins at the end of the one before, whatever their durations."""
        runs, prompts = self.runs, tokens - decoding
        for end_s in ends_s:
            runs += (started_s, 1, decoding, prompts, end_s - started_s, 0.0)
            started_s = end_s
        if len(runs) >= NUMBERS:
            self.tell()

    def tell(self) -> None:
        """Tell what has been noted."""
        runs = self.runs.copy()
        self.runs.clear()
        if runs:
            for hook in self._executor.probes.steps:
                hook(self._rank, runs)

    def take(self, entries: list[float], kv: PagedKVCache) -> None:
        """Note runs, and make the engine's notes of how each began; leave no entries.

        Args:
            entries: Eight numbers for each run: those that probes are told; how many blocks of the cache were free;
                and how many decoding had taken, or `NO_NOTE`. If nothing was to do, a run without steps says so.
            kv: The cache, with which the notes are kept.
        """
        if len(entries) < FEW:
            self._take_few(entries, kv.fresh_notes)
            return
        import numpy as np

        self.tell()
        table = np.frombuffer(pack(f"{len(entries)}d", *entries)).reshape(-1, 8)
        entries.clear()
        if kv.fresh_notes is not None:
            kv.store_notes(table[table[:, 7] != NO_NOTE][:, [0, 6, 7, 2]])
        runs = array("d", table[table[:, 1] > 0.0, :6].tobytes())
        if runs:
            for hook in self._executor.probes.steps:
                hook(self._rank, runs)

    def _take_few(self, entries: list[float], notes: list[float] | None) -> None:
        """The same without arrays, of which each costs more than some numbers do."""
        for place in range(0, len(entries), 8):
            started_s, steps, decoding, _, _, _, free, taken = entries[place : place + 8]
            if steps:
                self.runs += entries[place : place + 6]
            if notes is not None and taken != NO_NOTE:
                notes += (started_s, free, taken, decoding)
        entries.clear()
        if len(self.runs) >= NUMBERS:
            self.tell()


def stretches(
    tokens: float, decoding: float, started_s: float, first: int, steps: int, times: StepTimes
) -> Iterator[Run]:
    """One entry for each stretch in which durations grow evenly, of so many steps from `first` on."""
    end, prompts = first + steps, tokens - decoding
    if not times.kinks:
        yield started_s, steps, decoding, prompts, times.first_s + times.growth_s * first, times.growth_s
        return
    begun_s = times.elapsed(first)
    for stop in times.stretches(first, end):
        first_s = times.duration(first)
        growth_s = times.duration(first + 1) - first_s if stop > first + 1 else 0.0
        offset_s = times.elapsed(first) - begun_s
        yield started_s + offset_s, stop - first, decoding, prompts, first_s, growth_s
        first = stop
