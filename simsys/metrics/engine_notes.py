"""What an engine has noted whenever a run of steps began, or when nothing was left to do, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
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

    def changes(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """By how many the blocks in use change on average from note to note, and when; at most so many at a time.

        Decoding sequences take theirs bit by bit: until the next note, half of them count from the beginning.
        """
        import numpy as np

        free, full, sequences = (self._column(number) for number in range(3))
        before = 0.0
        for start in range(0, free.size, most):
            used = self._cache.num_blocks - free[start : start + most]
            at_end, after = used.copy(), full[start + 1 : start + 1 + most]
            decoding = sequences[start : start + after.size] > 0
            at_end[: after.size][decoding] = after[decoding]
            held = 0.5 * (used + at_end)
            yield np.array(self._cache.notes[0][start : start + most]), np.diff(held, prepend=before)
            before = held[-1]

    @property
    def sequences(self) -> np.ndarray:
        """How many decode in the run; less than 0 if so many wait while it processes prompts alone."""
        return self._column(2).copy()

    def _column(self, number: int) -> np.ndarray:
        import numpy as np

        column: np.ndarray = np.frombuffer(self._cache.notes[1], dtype=np.int32)[number::3]
        return column
