"""Whether replicas keep up with their requests: stable, backlogged or overloaded.

*Overloaded*: requests come faster than they are taken on, so the queue grows as long as they come; a longer run would
have longer latencies. It is judged over the later half of the arrivals, when batches are filled. A queue that is
served as fast as it fills has a bounded length, so the share of the arrivals by which it grows tends to 0 in a long
run, and to 1 - capacity / rate otherwise (stability of a queue; Kleinrock 1975, "Queueing Systems", volume 1).

*Backlogged*: the queue does not grow like that, but requests wait longer than they are served: by Little's law, on
average more of them wait than run. So it is with bursts, with batches that arrive at once, and close to capacity.

*Stable*: neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

STABLE, BACKLOGGED, OVERLOADED = "stable", "backlogged", "overloaded"

GROWTH, GROWTH_DEVIATIONS, GROWTH_ARRIVALS = 0.1, 3.0, 100
"""The queue counts as growing if it does by more than this share of the arrivals, or by so many standard deviations of
the number of arrivals of a Poisson process, if that is less: in a long run, a small excess shows too. It is judged
over at least 100 arrivals, whose number already deviates by 10 %. The three numbers are our choice."""


@dataclass(frozen=True)
class Backlog:
    """How the queue grew over the later half of the arrivals.

    Args:
        arrived: Requests that arrived after the first one of that half.
        admitted: Requests that were scheduled for the first time meanwhile.
        span_s: How long that took.
    """

    arrived: int
    admitted: int
    span_s: float

    @property
    def share(self) -> float:
        """Share of the arrivals by which the queue grew."""
        return (self.arrived - self.admitted) / self.arrived

    @property
    def grows(self) -> bool:
        """Whether that is more than chance."""
        return self.share > min(GROWTH, GROWTH_DEVIATIONS / math.sqrt(self.arrived))


def backlog(arrival_s: np.ndarray, admitted_s: np.ndarray) -> Backlog | None:
    """How the queue grew; None where there were too few arrivals, or all at once, to tell.

    Args:
        arrival_s: When the requests arrived that were not rejected.
        admitted_s: When they were scheduled for the first time; NaN for never.
    """
    import numpy as np

    if not np.all(arrival_s[1:] >= arrival_s[:-1]):
        arrival_s = np.sort(arrival_s)
    later_s = arrival_s[arrival_s.size // 2 :]
    if later_s.size <= GROWTH_ARRIVALS or later_s[0] == later_s[-1]:
        return None
    admitted = int(np.count_nonzero((admitted_s > later_s[0]) & (admitted_s <= later_s[-1])))
    return Backlog(later_s.size - 1, admitted, float(later_s[-1] - later_s[0]))


def saturation(found: Backlog | None, queue_s: float, inference_s: float) -> str:
    """Say which of the three it is.

    Args:
        found: How the queue grew.
        queue_s: How long a request waits to be scheduled, on average.
        inference_s: How long it takes from then on, on average.
    """
    if found is not None and found.grows:
        return OVERLOADED
    return BACKLOGGED if queue_s > inference_s else STABLE
