"""What an engine has noted whenever a run of steps began, or when nothing was left to do, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.kv_cache import PagedKVCache


class EngineNotes:
    """Notes of one engine (`PagedKVCache.fresh_notes`); an array is made when it is asked for.

    Args:
        cache: The KV cache that they are kept with.
    """

    def __init__(self, cache: PagedKVCache) -> None:
        self._cache = cache

    @property
    def times_s(self) -> np.ndarray:
        """When each was made; at the end of the run before it, if there was one."""
        import numpy as np

        return np.array(self._cache.notes[0])

    @property
    def held_blocks(self) -> np.ndarray:
        """Blocks of the KV cache in use on average until the next note: decoding sequences take theirs bit by bit."""
        import numpy as np

        used = self._cache.num_blocks - self._column(0)
        full, decoding = self._column(1), self._column(2) > 0
        held = 2.0 * used
        held[:-1][decoding[:-1]] += (full[1:] - used[:-1])[decoding[:-1]]
        return np.multiply(held, 0.5, out=held)

    @property
    def sequences(self) -> np.ndarray:
        """How many decode in the run; less than 0 if so many wait while it processes prompts alone."""
        return self._column(2).copy()

    def _column(self, number: int) -> np.ndarray:
        import numpy as np

        column: np.ndarray = np.frombuffer(self._cache.notes[1], dtype=np.int32)[number::3]
        return column
