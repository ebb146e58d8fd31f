"""The steps of serving replicas, in columns: one entry for each run of steps with an unchanged batch."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 1 << 17
"""Entries that statistics look at together, so that what they need besides the log does not grow with the run."""


@dataclass(frozen=True)
class StepRuns:
    """Some entries of a log as arrays; durations within a run grow evenly, as an arithmetic progression.

    Args:
        ended_s: When the last step of each run ended.
        first_s: Duration of its first step.
        last_s: Duration of its last step.
        count: Steps of the run.
        decode_tokens: Decoding sequences: as many tokens in each of these steps.
        prompt_tokens: Prompt tokens that each of them has processed.
        usual: Whether each of these tokens came one step after the one before it.
    """

    ended_s: NDArray[np.float64]
    first_s: NDArray[np.float64]
    last_s: NDArray[np.float64]
    count: NDArray[np.int64]
    decode_tokens: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    usual: NDArray[np.bool_]

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
    """Runs of steps: 40 bytes each, however many steps and tokens they are."""

    def __init__(self) -> None:
        self.ended_s, self.first_s, self.last_s = array("d"), array("d"), array("d")
        self.count, self.decode_tokens, self.prompt_tokens = array("I"), array("I"), array("I")
        self.rank, self.kv_blocks = array("I"), array("I")
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
        self.rank.append(rank)
        self.ended_s.append(ended_s)
        self.first_s.append(first_s)
        self.last_s.append(last_s)
        self.count.append(count)
        self.decode_tokens.append(decode_tokens)
        self.prompt_tokens.append(prompt_tokens)
        self.kv_blocks.append(kv_blocks)

    def __len__(self) -> int:
        return len(self.count)

    def blocks(self, only: NDArray[np.int64] | None = None) -> Iterator[StepRuns]:
        """The entries, some at a time; with `only`, those with these numbers, which increase."""
        import numpy as np

        unusual = np.asarray(self.unusual)
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            usual = np.ones(stop - start, dtype=bool)
            usual[unusual[(unusual >= start) & (unusual < stop)] - start] = False
            part: Any = slice(start, stop)
            if only is not None:
                part = only[(only >= start) & (only < stop)]
                usual = usual[part - start]
            yield StepRuns(
                ended_s=np.asarray(self.ended_s)[part],
                first_s=np.asarray(self.first_s)[part],
                last_s=np.asarray(self.last_s)[part],
                count=np.asarray(self.count)[part].astype(np.int64),
                decode_tokens=np.asarray(self.decode_tokens)[part].astype(np.int64),
                prompt_tokens=np.asarray(self.prompt_tokens)[part].astype(np.int64),
                usual=usual,
            )

    def columns(self) -> Mapping[str, Any]:
        """The entries as a table."""
        return {
            "rank": self.rank,
            "ended_s": self.ended_s,
            "steps": self.count,
            "first_step_s": self.first_s,
            "last_step_s": self.last_s,
            "decode_tokens": self.decode_tokens,
            "prompt_tokens": self.prompt_tokens,
            "kv_blocks": self.kv_blocks,
        }
