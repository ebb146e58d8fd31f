"""Records of an engine at the start of each multi-step run, or when it became idle, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog


class EngineNotes:
    """Records of one engine (`EngineLog`) as arrays, created on access.

    Args:
        log: The records of the engine.
        part: Slice of the records.
    """

    def __init__(self, log: EngineLog, part: slice = slice(None)) -> None:
        self._log, self._part = log, part

    @cached_property
    def times_s(self) -> np.ndarray:
        """When each was made; at the end of the run before it, if there was one."""
        return self._column(0)

    @cached_property
    def used_blocks(self) -> np.ndarray:
        """Blocks of the KV cache in use when the run began."""
        return self._log.cache.num_blocks - self._column(1).astype("int64")

    @cached_property
    def taken_blocks(self) -> np.ndarray:
        """Blocks allocated by decoding sequences so far, including freed ones."""
        return self._column(2)

    def _column(self, number: int) -> np.ndarray:
        import numpy as np

        return np.asarray(self._log.notes[number][self._part])  # of a copy, so that more can be noted


def add_at(sums: np.ndarray, places: np.ndarray, amounts: np.ndarray) -> None:
    """Add amounts to sums at some places, which lie close together."""
    import numpy as np

    first, end = int(places.min()), int(places.max()) + 1
    sums[first:end] += np.bincount(places - first, amounts, end - first)
