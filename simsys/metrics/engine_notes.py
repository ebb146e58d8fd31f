"""What an engine has noted whenever a run of steps began, or when nothing was left to do, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.kv_cache import PagedKVCache


class EngineNotes:
    """Notes of one engine (`PagedKVCache.fresh_notes`); an array is made when it is asked for.

    Args:
        cache: The KV cache that they are kept with.
        part: Which of them.
    """

    def __init__(self, cache: PagedKVCache, part: slice = slice(None)) -> None:
        self._cache, self._part = cache, part

    @cached_property
    def times_s(self) -> np.ndarray:
        """When each was made; at the end of the run before it, if there was one."""
        return self._column(0)

    @cached_property
    def used_blocks(self) -> np.ndarray:
        """Blocks of the KV cache in use when the run began."""
        return self._cache.num_blocks - self._column(1)

    @cached_property
    def taken_blocks(self) -> np.ndarray:
        """Blocks that decoding sequences have taken so far, be they given back."""
        return self._column(2)

    @cached_property
    def sequences(self) -> np.ndarray:
        """How many decode in the run; less than 0 if so many wait while it processes prompts alone.

        Or while it waits for copies.
        """
        return self._column(3)

    def _column(self, number: int) -> np.ndarray:
        import numpy as np

        return np.asarray(self._cache.notes[number][self._part])  # of a copy, so that more can be noted
