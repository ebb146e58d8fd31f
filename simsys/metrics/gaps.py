"""Statistics of the gaps between tokens, from runs of steps whose durations grow evenly, without listing the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FEW = 50_000
"""Steps that are simply listed and sorted."""


@dataclass(frozen=True)
class Gaps:
    """Gaps of so many equal weights: step i of a run has the duration ``first + i · growth``, once for each token.

    Args:
        first: Duration of the first step of each run.
        growth: By how much each step is longer than the one before.
        count: Steps of each run.
        tokens: Gaps of this duration: the sequences that decode in each step.
    """

    first: np.ndarray
    growth: np.ndarray
    count: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of_runs(cls, runs: Sequence[float]) -> Gaps:
        """The gaps in what `Probe.steps` tells, in seconds."""
        import numpy as np

        table = np.asarray(runs, dtype=float).reshape(-1, 6)
        decode = table[:, 2] > 0
        return cls(table[decode, 4], table[decode, 5], table[decode, 1], table[decode, 2])

    @property
    def total(self) -> float:
        """How many gaps there are."""
        return float((self.count * self.tokens).sum())

    def mean(self) -> float:
        """Their average."""
        sums = self.count * (self.first + self.growth * (self.count - 1) / 2)
        return float((sums * self.tokens).sum()) / self.total

    def std(self) -> float:
        """Their standard deviation: the root of the mean of squares of arithmetic progressions around the mean."""
        n, first = self.count, self.first - self.mean()
        squares = n * first**2 + first * self.growth * n * (n - 1) + self.growth**2 * (n - 1) * n * (2 * n - 1) / 6
        return math.sqrt(float((squares * self.tokens).sum()) / self.total)

    def quantile(self, share: float) -> float:
        """The least gap that is at least as long as this share of all: narrowed down, then found among few steps."""
        wanted, gaps = share * self.total, self
        low, high = float(gaps.first.min()), float(gaps.last.max())
        while gaps.count.sum() > FEW and low < (middle := (low + high) / 2) < high:
            upto = gaps.upto(middle)
            number = float((upto * gaps.tokens).sum())  # no product of BLAS: its threads cost more than they save
            if number >= wanted:
                high, gaps = middle, gaps.part(upto * 0, upto)
            else:
                low, wanted, gaps = middle, wanted - number, gaps.part(upto, gaps.count)
        return gaps.listed(wanted) if gaps.count.sum() <= FEW else high

    @property
    def last(self) -> np.ndarray:
        """Duration of the last step of each run."""
        last: np.ndarray = self.first + self.growth * (self.count - 1)
        return last

    def upto(self, value: float) -> np.ndarray:
        """How many steps of each run are no longer than this."""
        import numpy as np

        steps = np.floor((value - self.first) / np.where(self.growth > 0, self.growth, 1.0)) + 1
        steps = np.where(self.growth > 0, steps, np.where(self.first <= value, self.count, 0.0))
        clipped: np.ndarray = np.clip(steps, 0.0, self.count)
        return clipped

    def part(self, begin: np.ndarray, end: np.ndarray) -> Gaps:
        """Some steps of each run, as runs that have any."""
        some = end > begin
        first = self.first + self.growth * begin
        return Gaps(first[some], self.growth[some], (end - begin)[some], self.tokens[some])

    def listed(self, wanted: float) -> float:
        """The gap up to which there are so many, step by step."""
        import numpy as np

        count = self.count.astype(int)
        places = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        values = np.repeat(self.first, count) + places * np.repeat(self.growth, count)
        order = np.argsort(values)
        cumulated = np.cumsum(np.repeat(self.tokens, count)[order])
        return float(values[order][min(np.searchsorted(cumulated, wanted), len(values) - 1)])
