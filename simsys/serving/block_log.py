"""Records of an engine about the blocks of its KV cache, for statistics after the run."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from simsys.serving.kv_cache import PagedKVCache

if TYPE_CHECKING:
    import numpy as np


class BlockLog:
    """Notes of one engine; empty unless an observer calls `keep` before the engine is made.

    Args:
        cache: The KV cache of the engine.
    """

    __slots__ = ("_columns", "cache", "chunks", "fresh", "growth")

    def __init__(self, cache: PagedKVCache) -> None:
        self.cache = cache
        self.fresh: list[float] | None = None
        """Where the engine notes four numbers whenever a run of steps begins, or nothing is left to do.

        They are the time (s), `free_blocks`, `taken_blocks`, and how many sequences decode in the run. The last one is
        negative if this number of sequences waits while the run processes prompts alone or caches are copied.
        """
        self.growth: array[int] | None = None
        """Where decoding notes which sequences take blocks in which steps: ``step * block_size + remainder`` for one
        that takes a block in every later step of this remainder modulo the block size, and ``~`` of it for one that
        stops."""
        self.chunks: array[float] | None = None
        """Where the engine notes chunks of prompts in runs of several steps, six numbers each: when the run began and
        ended (s); its steps; tokens that were computed before; tokens in each step; blocks held after the first."""
        self._columns: tuple[array[Any], ...] = array("d"), array("i"), array("q"), array("i")

    def keep(self) -> None:
        """Let the engine keep notes."""
        self.fresh, self.growth, self.chunks = [], array("q"), array("d")

    @property
    def notes(self) -> tuple[array[Any], ...]:
        """All notes so far, one array for each of the four numbers."""
        self.store()
        return self._columns

    def store(self, more: np.ndarray | None = None) -> None:
        """Move fresh notes into arrays, which need a fifth of the memory of a list.

        Args:
            more: Further notes, one in each row.
        """
        fresh = self.fresh
        if fresh:
            for place, column in enumerate(self._columns):
                column.fromlist(fresh[place::4])
            fresh.clear()
        if more is not None:
            for place, column in enumerate(self._columns):
                column.frombytes(more[:, place].astype(column.typecode).tobytes())
