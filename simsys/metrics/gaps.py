"""Exact statistics of inter-token latency, without a value for every token.

The gaps between tokens come as runs of steps: the durations of a run are an arithmetic progression, and each is the
gap of one token per decoding sequence. Sums over progressions are closed forms; an order statistic is found by
counting the values below two limits, guessed from a sample, and by sorting only the values between them (Floyd and
Rivest 1975, "Expected time bounds for selection"). A bad guess costs time, not accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from simsys.metrics.step_log import BLOCK, StepLog, StepRuns
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.token_gaps import TokenGaps

SAMPLE = 1 << 16
"""Sample size for guessing limits; up to this number, values are sorted directly."""
ROUNDING = 1e-12
"""Relative difference of step durations below which they are equal except for rounding."""


@dataclass(frozen=True)
class Progressions:
    """Arithmetic progressions: `count` values from `low_s` in steps of `growth_s` >= 0, `weight` times each.

    They are those of some replicas, one after another, of which each but the first begins at one of `begins`.
    """

    low_s: np.ndarray
    growth_s: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    begins: np.ndarray

    def value_s(self, place: np.ndarray, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The value at a place, counted from 0, of some of the progressions."""
        values_s: np.ndarray = self.low_s[which] + place * self.growth_s[which]
        return values_s

    @cached_property
    def high_s(self) -> np.ndarray:
        """The greatest value of each."""
        return self.value_s(self.count - 1)

    def summed(self, amounts: np.ndarray) -> float:
        """The sum of an amount of each: replica by replica, and then of all."""
        import numpy as np

        return ordered_sum(float(part.sum()) for part in np.split(amounts, self.begins))

    def below(self, limit_s: float) -> np.ndarray:
        """Number of values of each progression below a limit, without weights."""
        import numpy as np

        below = np.where(self.high_s < limit_s, self.count, 0)
        cut = np.flatnonzero((below == 0) & (self.low_s < limit_s))
        if cut.size:
            count = self.count[cut]
            places = np.ceil((limit_s - self.low_s[cut]) / self.growth_s[cut]).astype(np.int64).clip(1, count)
            places -= self.value_s(places - 1, cut) >= limit_s  # where rounding is off by one
            places += (places < count) & (self.value_s(places, cut) < limit_s)
            below[cut] = places
        return below

    def between(self, low_s: float, high_s: float) -> Part:
        """The values from `low_s` to `high_s`, both included."""
        import numpy as np

        start, end = self.below(low_s), self.below(float(np.nextafter(high_s, np.inf)))
        inside = np.flatnonzero(end > start)
        level = inside[self.growth_s[inside] == 0.0]  # equal values need no distinction
        rising = inside[self.growth_s[inside] > 0.0]
        number = end[rising] - start[rising]
        which = np.repeat(rising, number)
        place = np.arange(which.size) + np.repeat(start[rising] + number - np.cumsum(number), number)
        values_s = np.concatenate([self.low_s[level], self.value_s(place, which)])
        weights = np.concatenate([(self.weight * (end - start))[level], self.weight[which]])
        return Part(int((start * self.weight).sum()), values_s, weights)


@dataclass(frozen=True)
class Part:
    """What lies between two limits of all values: how many are below, and values with their weights."""

    below: int
    values_s: np.ndarray
    weights: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Part]) -> Part:
        """Merge several into one with distinct values in ascending order."""
        import numpy as np

        values_s, inverse = np.unique(np.concatenate([part.values_s for part in parts]), return_inverse=True)
        weights = np.bincount(inverse, np.concatenate([part.weights for part in parts]), values_s.size)
        return cls(sum(part.below for part in parts), values_s, weights)

    def value_s(self, place: float) -> float | None:
        """The value at a place in the order of size, counted from 0, interpolated; None if it is not in this part."""
        import numpy as np

        ends = self.below + np.cumsum(self.weights)
        low, high = int(place), math.ceil(place)
        if not ends.size or low < self.below or high >= ends[-1]:
            return None
        below_s, above_s = self.values_s[np.searchsorted(ends, [low, high], side="right")]
        return float(below_s + (above_s - below_s) * (place - low))


class Gaps:
    """The gaps between the tokens of all requests.

    Args:
        steps: In each of which every decoding sequence got a token.
        apart: The gaps that are not one step long.
    """

    def __init__(self, steps: StepLog, apart: TokenGaps) -> None:
        self._steps, self._apart = steps, apart
        self._few: list[Progressions] = []
        if len(steps) <= BLOCK and apart.seconds.size <= BLOCK:
            self._few = list(self._progressions())  # which are asked for again and again
        self.total = 0
        """Number of gaps."""
        self.sum_s = 0.0
        """All of them together, in seconds."""
        for gaps in self._progressions():
            self.total += int((gaps.count * gaps.weight).sum())
            self.sum_s += gaps.summed(gaps.value_s(0.5 * (gaps.count - 1)) * gaps.count * gaps.weight)

    @property
    def mean_s(self) -> float:
        """Mean in seconds; there must be a gap."""
        return self.sum_s / self.total

    def std_s(self) -> float:
        """Standard deviation in seconds, of all gaps (not of a sample of more); there must be a gap."""
        import numpy as np

        squares = 0.0
        for gaps in self._progressions():
            centre_s = gaps.value_s(0.5 * (gaps.count - 1)) - self.mean_s
            # sum over j of (j - (n - 1) / 2)^2 is n (n^2 - 1) / 12
            spread = gaps.growth_s**2 * gaps.count * (gaps.count.astype(float) ** 2 - 1) / 12
            squares += gaps.summed(gaps.weight * (gaps.count * centre_s**2 + spread))
        return float(np.sqrt(squares / self.total))

    def percentiles_s(self, percentages: Sequence[float]) -> list[float]:
        """Percentiles in seconds, interpolated linearly as `numpy.percentile` does; there must be a gap.

        Args:
            percentages: From 0 to 100.
        """
        places = [percentage / 100 * (self.total - 1) for percentage in percentages]
        sample_s = self.sample_s()
        margin = 1 + int(sample_s.size**0.5)
        found: dict[float, float] = {}
        while missing := sorted(set(places) - set(found)):
            limits = [self._limits(place, sample_s, margin) for place in missing]
            for place, part in zip(missing, self._between(limits), strict=True):
                value_s = part.value_s(place)
                if value_s is not None:
                    found[place] = value_s
            margin *= 8
        return [found[place] for place in places]

    def at_most(self, limits_s: Iterable[float]) -> list[int]:
        """Number of gaps up to each limit."""
        import numpy as np

        limits_s = [float(np.nextafter(limit_s, np.inf)) for limit_s in limits_s]
        counts = [0] * len(limits_s)
        for gaps in self._progressions():
            for index, limit_s in enumerate(limits_s):
                counts[index] += int((gaps.below(limit_s) * gaps.weight).sum())
        return counts

    def _progressions(self) -> Iterator[Progressions]:
        import numpy as np

        if self._few:
            yield from self._few
            return
        for runs in self._steps.together():
            yield self._of_runs(runs)
        for start in range(0, self._apart.seconds.size, BLOCK):
            seconds, weight = (each[start : start + BLOCK] for each in (self._apart.seconds, self._apart.weight))
            count, whole = np.ones(seconds.size, dtype=np.int64), np.zeros(0, dtype=np.int64)
            yield Progressions(seconds, np.zeros(seconds.size), count, weight, whole)

    def _of_runs(self, runs: StepRuns) -> Progressions:
        """The gaps that are one step long."""
        import numpy as np

        first_s, last_s, count, weight = runs.first_s, runs.last_s, runs.count, runs.decode_tokens
        late, owner = self._apart.late_in(runs), np.zeros(len(runs), dtype=np.int64)
        for number, here in enumerate(runs.places.values()):
            owner[here] = number
        if late is not None:  # the first step of some runs ends fewer gaps
            place, many = late
            fewer_s = first_s[place]
            first_s, count = first_s.copy(), count.copy()
            first_s[place] += runs.growth_s[place]
            count[place] -= 1
            first_s, last_s = np.concatenate([first_s, fewer_s]), np.concatenate([last_s, fewer_s])
            count = np.concatenate([count, np.ones(place.size, dtype=np.int64)])
            weight = np.concatenate([weight, np.maximum(weight[place] - many, 0)])
            owner = np.concatenate([owner, owner[place]])
            order = np.argsort(owner, kind="stable")
            first_s, last_s = first_s[order], last_s[order]
            count, weight, owner = count[order], weight[order], owner[order]
        told = (weight > 0) & (count > 0)
        low_s, high_s = np.minimum(first_s, last_s)[told], np.maximum(first_s, last_s)[told]
        even = high_s - low_s <= ROUNDING * low_s
        low_s = np.where(even, 0.5 * (low_s + high_s), low_s)
        growth_s = np.where(even, 0.0, (high_s - low_s) / np.maximum(count[told] - 1, 1))
        return Progressions(low_s, growth_s, count[told], weight[told], np.flatnonzero(np.diff(owner[told])) + 1)

    def sample_s(self) -> np.ndarray:
        """Some of the gaps in seconds, in order of size: all if they are few, else evenly spread over the log."""
        import numpy as np

        # Sample size for which sorting costs about as much as the rest.
        size = self.total if self.total <= SAMPLE else min(SAMPLE, int(self.total ** (2 / 3)))
        picks = np.linspace(0, self.total - 1, size).astype(np.int64)
        parts, passed = [], 0
        for gaps in self._progressions():
            ends = passed + np.cumsum(gaps.count * gaps.weight)
            if not ends.size:
                continue
            here = picks[(picks >= passed) & (picks < ends[-1])]
            which = np.searchsorted(ends, here, side="right")
            into = here - (ends - gaps.count * gaps.weight)[which]
            parts.append(gaps.value_s(into // gaps.weight[which], which))
            passed = int(ends[-1])
        return np.sort(np.concatenate(parts))

    def _limits(self, place: float, sample_s: np.ndarray, margin: int) -> tuple[float, float]:
        """Between which values that place in the order of size lies, judging by a sample."""
        import numpy as np

        middle = int(place / max(1, self.total - 1) * (sample_s.size - 1))
        left, right = middle - margin, middle + 1 + margin
        return sample_s[left] if left >= 0 else -np.inf, sample_s[right] if right < sample_s.size else np.inf

    def _between(self, limits: Sequence[tuple[float, float]]) -> list[Part]:
        """The gaps between each two limits, in one pass."""
        parts: list[list[Part]] = [[] for _ in limits]
        for gaps in self._progressions():
            for found, (low_s, high_s) in zip(parts, limits, strict=True):
                found.append(gaps.between(low_s, high_s))
        return [Part.joined(found) for found in parts]
