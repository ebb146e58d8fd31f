"""What an engine has noted whenever a run of steps began, or when nothing was left to do, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.kv_cache import PagedKVCache

NUMBERS = 4
"""Of each note (`PagedKVCache.fresh_notes`)."""


@dataclass(frozen=True)
class EngineNotes:
    """Notes of one engine.

    Args:
        times_s: When each was made; at the end of the run before it, if there was one.
        used_blocks: Blocks of the KV cache in use when the run began.
        taken_blocks: Blocks that decoding sequences have taken so far, be they given back.
        sequences: How many decode in the run; less than 0 if so many wait while it processes prompts alone,
            or while it waits for copies.
    """

    times_s: np.ndarray
    used_blocks: np.ndarray
    taken_blocks: np.ndarray
    sequences: np.ndarray

    @classmethod
    def of(cls, cache: PagedKVCache) -> EngineNotes:
        """Read those that are kept with a cache."""
        import numpy as np

        times_s, free, taken, sequences = np.asarray(cache.notes).reshape(-1, NUMBERS).T
        return cls(times_s.copy(), cache.num_blocks - free, taken.copy(), sequences.astype(np.int64))
