"""Whether the number of requests in a serving system still grows: a test of the trend of its batch and its queue.

The number of requests over time is averaged in blocks of equal length (batch means; Law, "Simulation Modeling and
Analysis", chapter 9). The increments between successive blocks are a sample, and Student's t gives bounds of their
mean. This counts increments as independent: exact for a queue at or above its capacity, which is a random walk with
drift, and conservative for a stationary number, whose increments cancel out. A slope fitted to the block means would
call half of all critical queues steady, since the residuals of a random walk are correlated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BLOCKS = 8
"""Blocks of a test; for a stationary number, more or fewer need longer runs."""
T_95, T_99 = 1.943, 3.143
"""Quantiles of Student's t for the increments of as many blocks, one-sided (six degrees of freedom)."""
MARGIN = 0.02
"""Largest growth of a steady system, as a share of the arriving requests."""


@dataclass(frozen=True)
class Growth:
    """Growth of a number of requests in a time, as a share of the requests that arrive in it.

    Args:
        share: The estimate.
        error: Its standard error.
    """

    share: float
    error: float

    @property
    def is_seen(self) -> bool:
        """Whether it is above 0 with a confidence of 95 %."""
        return self.share > T_95 * self.error

    @property
    def is_large(self) -> bool:
        """Whether it is above the margin with a confidence of 99 %."""
        return self.share - T_99 * self.error > MARGIN

    @property
    def has_ended(self) -> bool:
        """Whether it is below the margin with a confidence of 99 %, and no growth is seen."""
        return self.share + T_99 * self.error <= MARGIN and not self.is_seen


def growth(come_s: np.ndarray, gone_s: np.ndarray, since_s: float, until_s: float) -> Growth | None:
    """Growth of the number of requests that have come and not gone; None if fewer come than there are blocks.

    Args:
        come_s: Times at which requests come.
        gone_s: Times at which requests go; later ones than `until_s` do not matter.
        since_s: Start of the time.
        until_s: Its end.
    """
    import numpy as np

    arriving = np.count_nonzero((come_s > since_s) & (come_s <= until_s)) / BLOCKS
    if arriving < 1.0:
        return None
    borders_s = np.linspace(since_s, until_s, BLOCKS + 1)
    steps = np.diff(_means(come_s, borders_s) - _means(gone_s, borders_s)) / arriving
    return Growth(float(steps.mean()), float(steps.std(ddof=1)) / math.sqrt(steps.size))


def in_order(times_s: np.ndarray) -> np.ndarray:
    """Times from the first to the last: the same array if they are so already."""
    import numpy as np

    return times_s if np.all(times_s[1:] >= times_s[:-1]) else np.sort(times_s)


def _means(times_s: np.ndarray, borders_s: np.ndarray) -> np.ndarray:
    """Mean number of past times between each two borders."""
    import numpy as np

    times_s = in_order(times_s)
    past = np.searchsorted(times_s, borders_s, side="right")
    summed = past * borders_s - np.concatenate([[0.0], np.cumsum(times_s)])[past]
    means: np.ndarray = np.diff(summed) / np.diff(borders_s)
    return means
