"""Random factors of computation, equal for a rank in any simulation.

Each rank has its own random stream, and one factor for all computation of a training iteration or a serving step. So
levels of detail that simulate different ranks, or in a different order, have equal factors.

A representative rank has the largest factor of its ranks. If all of them have equal work and only common collectives,
a collective begins when the slowest is ready, so times are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simsys.rng import stream

if TYPE_CHECKING:
    from numpy import float64
    from numpy.random import Generator
    from numpy.typing import NDArray

_AT_ONCE = 64  # factors that are drawn together


@dataclass(frozen=True, slots=True)
class Jitter:
    """Random factors of durations, with mean 1.

    Args:
        variation: Their coefficient of variation: standard deviation over mean.
        seed: Of the scenario.
        distribution: ``lognormal`` or ``gamma``.
    """

    variation: float
    seed: int
    distribution: str = "lognormal"

    def factors(self, ranks: Sequence[int]) -> Iterator[float]:
        """For one iteration or step after another, the largest factor of these ranks; without end."""
        return (largest for largest, _ in self.largest_and_mean(ranks))

    def largest_and_mean(self, ranks: Sequence[int]) -> Iterator[tuple[float, float]]:
        """For one iteration or step after another, the largest factor of these ranks and their mean; without end."""
        import numpy as np

        randoms = [stream(self.seed, f"jitter of rank {rank}") for rank in ranks]
        while True:
            drawn = self._draw(randoms[0])
            largest, total = drawn, drawn.copy()
            for random in randoms[1:]:
                drawn = self._draw(random)
                np.maximum(largest, drawn, out=largest)
                total += drawn
            yield from zip(largest.tolist(), (total / len(randoms)).tolist(), strict=True)

    def _draw(self, random: Generator) -> NDArray[float64]:
        """The next factors of one rank."""
        if self.distribution == "gamma":
            shape = 1.0 / self.variation**2
            return random.gamma(shape, 1.0 / shape, _AT_ONCE)
        variance = math.log1p(self.variation**2)  # of the logarithm
        return random.lognormal(-variance / 2.0, math.sqrt(variance), _AT_ONCE)
