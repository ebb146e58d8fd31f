"""The steps of serving replicas, in columns: one entry for each run of steps with an unchanged batch."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 1 << 17
"""Entries that statistics look at together, so that what they need besides the log does not grow with the run."""

COLUMNS = {
    "rank": "I",
    "ended_s": "d",
    "steps": "I",
    "first_step_s": "d",
    "last_step_s": "d",
    "decode_tokens": "I",
    "prompt_tokens": "I",
    "kv_blocks": "I",
}
"""What is known of a run of steps, and its type in a record (as in the `struct` module)."""
_RECORD = Struct("<" + "".join(COLUMNS.values()))
_PACK = _RECORD.pack


class StepRuns:
    """Some entries of a log as arrays; durations within a run grow evenly, as an arithmetic progression.

    Args:
        records: The entries.
        usual: Whether each of their tokens came one step after the one before it.
    """

    def __init__(self, records: np.ndarray, usual: NDArray[np.bool_]) -> None:
        self._records, self.usual = records, usual

    def __len__(self) -> int:
        return len(self.usual)

    @cached_property
    def ended_s(self) -> NDArray[np.float64]:
        """When the last step of each run ended."""
        return self._records["ended_s"].astype(float)

    @cached_property
    def first_s(self) -> NDArray[np.float64]:
        """Duration of its first step."""
        return self._records["first_step_s"].astype(float)

    @cached_property
    def last_s(self) -> NDArray[np.float64]:
        """Duration of its last step."""
        return self._records["last_step_s"].astype(float)

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """Steps of the run."""
        return self._records["steps"].astype("int64")

    @cached_property
    def decode_tokens(self) -> NDArray[np.int64]:
        """Decoding sequences: as many tokens in each of these steps."""
        return self._records["decode_tokens"].astype("int64")

    @cached_property
    def prompt_tokens(self) -> NDArray[np.int64]:
        """Prompt tokens that each of them has processed."""
        return self._records["prompt_tokens"].astype("int64")

    @cached_property
    def kv_blocks(self) -> NDArray[np.int64]:
        """KV-cache blocks that the replica held meanwhile."""
        return self._records["kv_blocks"].astype("int64")

    @property
    def duration_s(self) -> NDArray[np.float64]:
        """How long each run took."""
        return self.count * (0.5 * (self.first_s + self.last_s))

    @property
    def started_s(self) -> NDArray[np.float64]:
        """When the first step of each run began."""
        return self.ended_s - self.duration_s

    def ends_s(self, place: NDArray[np.int64], which: NDArray[np.int64]) -> NDArray[np.float64]:
        """When steps ended, by their place in the run, counted from 1, and the run."""
        import numpy as np

        first_s, last_s, count = self.first_s[which], self.last_s[which], self.count[which]
        growth_s = (last_s - first_s) / np.maximum(count - 1, 1)
        left = count - place
        return self.ended_s[which] - left * (last_s - 0.5 * growth_s * (left - 1))


class StepLog:
    """Runs of steps: 44 bytes each, however many steps and tokens they are.

    They are records in one buffer, which grows without copies of it and without a Python object for each.
    """

    def __init__(self) -> None:
        self._records = bytearray()
        self.unusual = array("I")
        """Entries whose tokens came later than one step after those before; what they waited is told elsewhere."""

    def append(
        self,
        rank: int,
        ended_s: float,
        count: int,
        decode_tokens: int,
        prompt_tokens: int,
        first_s: float,
        last_s: float,
        kv_blocks: int = 0,
    ) -> None:
        """Note `count` steps in a row whose durations grow evenly.

        Args:
            rank: The first rank of the replica.
            ended_s: When the last of them ended.
            count: How many.
            decode_tokens: Decoding sequences: as many tokens in each step.
            prompt_tokens: Prompt tokens that each step has processed.
            first_s: Duration of the first step.
            last_s: Duration of the last step.
            kv_blocks: KV-cache blocks that the replica holds meanwhile.
        """
        self._records += _PACK(rank, ended_s, count, first_s, last_s, decode_tokens, prompt_tokens, kv_blocks)

    def __len__(self) -> int:
        return len(self._records) // _RECORD.size

    def column(self, name: str) -> np.ndarray:
        """A column of the table; a view, while which nothing can be noted.

        Args:
            name: One of `COLUMNS`.
        """
        return self._table()[name]

    def _table(self) -> np.ndarray:
        import numpy as np

        codes = {"I": "<u4", "d": "<f8"}
        return np.frombuffer(self._records, dtype=[(name, codes[code]) for name, code in COLUMNS.items()])

    def blocks(self, only: np.ndarray | None = None) -> Iterator[StepRuns]:
        """The entries, some at a time; with `only`, those with these numbers, which increase."""
        import numpy as np

        unusual, records = np.asarray(self.unusual), self._table()
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            usual = np.ones(stop - start, dtype=bool)
            usual[unusual[(unusual >= start) & (unusual < stop)] - start] = False
            part: Any = slice(start, stop)
            if only is not None:
                part = only[(only >= start) & (only < stop)]
                usual = usual[part - start]
            yield StepRuns(records[part], usual)

    def columns(self) -> Mapping[str, Any]:
        """The entries as a table."""
        return {name: self.column(name).tolist() for name in COLUMNS}
