"""Records of an engine at the start of each multi-step run, or when it became idle, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog


class EngineNotes:
<<<<<<< HEAD
    """Notes of one engine (`EngineLog`); an array is made when it is asked for.
=======
    """Records of one engine (`BlockLog`) as arrays, created on access.
>>>>>>> b723c5d (Metrics and serving are described in the words of the field)

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
        return self._log.cache.num_blocks - self._column(1)

    @cached_property
    def taken_blocks(self) -> np.ndarray:
        """Blocks allocated by decoding sequences so far, including freed ones."""
        return self._column(2)

<<<<<<< HEAD
=======
    @cached_property
    def sequences(self) -> np.ndarray:
        """Number of decoding sequences in the run; negative if this number waits while it processes only prompts.

        Or while it waits for copies.
        """
        return self._column(3)

>>>>>>> b723c5d (Metrics and serving are described in the words of the field)
    def _column(self, number: int) -> np.ndarray:
        import numpy as np

        return np.asarray(self._log.notes[number][self._part])  # of a copy, so that more can be noted
