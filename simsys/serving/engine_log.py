"""What an engine reports of its KV cache and of waiting sequences; statistics are computed of it after the run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import error, pack
from typing import TYPE_CHECKING, Any

from simsys.serving.kv_cache import PagedKVCache

if TYPE_CHECKING:
    import numpy as np


MOST = 2**31 - 1
"""Largest number of blocks that is kept in four bytes."""


def move(numbers: Sequence[float], columns: Sequence[array[Any]]) -> None:
    """Append rows of numbers to columns, which need a fifth of the memory of a list.

    Args:
        numbers: The rows, one after another.
        columns: As many as a row has numbers.
    """
    count = len(numbers) // len(columns)
    for place, column in enumerate(columns):
        part = numbers[place :: len(columns)]
        try:
            column.frombytes(pack(f"{count}{column.typecode}", *part))  # faster than number by number
        except error:  # whole numbers may come as floats
            column.extend(map(int, part))


class EngineLog:
    """Notes of one engine; empty unless an observer calls `keep` before the engine is made.

    Args:
        cache: The KV cache of the engine.
    """

    __slots__ = (
        "_columns",
        "_growth",
        "_mean_growth",
        "_waiting",
        "cache",
        "chunks",
        "fresh",
        "fresh_growth",
        "fresh_mean_growth",
        "pauses",
        "waits",
    )

    def __init__(self, cache: PagedKVCache) -> None:
        self.cache = cache
        self.fresh: list[float] | None = None
        """Where the engine notes three numbers whenever a run of steps begins, or nothing is left to do: the time (s),
        `free_blocks` and `taken_blocks`."""
        self.fresh_growth: list[int] | None = None
        """Where decoding notes three numbers for each sequence that leaves it: the remainder modulo the block size
        of the steps in which it has taken a block, the step at which it joined, and the one at which it left."""
        self.fresh_mean_growth: list[int] | None = None
        """Where decoding with drafts notes six numbers for each run of several steps that takes blocks: its first
        step, its steps, and those that give the blocks taken after any of them (`simsys.metrics.mean_growth`)."""
        self._growth = array("i"), array("i"), array("i")
        self._mean_growth = array("q")
        self.chunks = array("d")
        """Where the engine notes chunks of prompts in runs of several steps, six numbers each: when the run began and
        ended (s); its steps; tokens that were computed before; tokens in each step; blocks held after the first."""
        self.pauses = array("d")
        """Two numbers for each time in which sequences with tokens had to wait, while steps processed prompts alone or
        caches were copied: from when to when (s)."""
        self.waits = array("d")
        """Three numbers for sequences that waited equally long: since when and until when (s), and how many."""
        self._waiting: list[tuple[float, int]] = []  # in the pause under way: since when, and how many since then
        free = "i" if cache.num_blocks <= MOST else "q"
        self._columns: tuple[array[Any], ...] = array("d"), array(free), array("q")

    def keep(self) -> None:
        """Let the engine keep notes."""
        self.fresh, self.fresh_growth, self.fresh_mean_growth = [], [], []

    @property
    def notes(self) -> tuple[array[Any], ...]:
        """All notes so far, one array for each of the three numbers."""
        self.store()
        return self._columns

    @property
    def growth(self) -> tuple[array[int], ...]:
        """All notes of `fresh_growth` so far, one array for each of the three numbers."""
        self.store()
        return self._growth

    @property
    def mean_growth(self) -> array[int]:
        """All notes of `fresh_mean_growth` so far, six numbers each."""
        self.store()
        return self._mean_growth

    def store(self, more: np.ndarray | None = None) -> None:
        """Move fresh notes into arrays, which need a fifth of the memory of a list.

        Args:
            more: Further notes, one in each row.
        """
        if self.fresh:
            move(self.fresh, self._columns)
            self.fresh.clear()
        if self.fresh_growth:
            move(self.fresh_growth, self._growth)
            self.fresh_growth.clear()
        if self.fresh_mean_growth:
            move(self.fresh_mean_growth, [self._mean_growth])
            self.fresh_mean_growth.clear()
        if more is not None:
            for place, column in enumerate(self._columns):
                column.frombytes(more[:, place].astype(column.typecode).tobytes())

    def wait(self, now_s: float, sequences: int) -> None:
        """Record that sequences with tokens wait from now on, or continue to wait while others join or leave.

        The last ones to join are assumed to be preempted first, as in schedulers.

        Args:
            now_s: The time.
            sequences: Number of waiting sequences, at least one.
        """
        more = sequences - self._leave(sequences)
        if not self._waiting:
            self.pauses.append(now_s)
        if more:
            self._waiting.append((now_s, more))

    def go_on(self, now_s: float, sequences: int) -> None:
        """End the waiting, if there is any.

        Args:
            now_s: The time.
            sequences: How many decode from now on.
        """
        if self._waiting:
            self._leave(sequences)
            self.pauses.append(now_s)
            for since_s, count in self._waiting:
                self.waits.extend((since_s, now_s, count))
            self._waiting.clear()

    def _leave(self, sequences: int) -> int:
        """Let at most this number of sequences wait; return how many do."""
        waiting = sum(count for _, count in self._waiting)
        while waiting > sequences:
            since_s, count = self._waiting.pop()
            kept = max(0, count - (waiting - sequences))
            waiting -= count - kept
            if kept:
                self._waiting.append((since_s, kept))
        return waiting
