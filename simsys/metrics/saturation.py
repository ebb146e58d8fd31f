"""Whether replicas keep up with their requests: stable, backlogged or overloaded.

*Overloaded*: requests arrive faster than they are scheduled, so the queue grows while requests arrive; a longer run
would have longer latencies. This is judged over the later half of the arrivals, when batches are full. A queue that is
served as fast as it fills has a bounded length, so the share of the arrivals by which it grows tends to 0 in a long
run, and to 1 - capacity / rate otherwise (stability of a queue; Kleinrock 1975, "Queueing Systems", volume 1). In a
closed loop, the clients bound the queue, so it is never overloaded.

*Backlogged*: the queue does not grow, but mean queueing exceeds the service time; by Little's law, more requests wait
than run on average.

Examples are bursts, batches that arrive at once, and loads close to capacity. *Stable*: neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simsys.metrics.growth import in_order

if TYPE_CHECKING:
    import numpy as np

STABLE, BACKLOGGED, OVERLOADED = "stable", "backlogged", "overloaded"

GROWTH, GROWTH_DEVIATIONS, GROWTH_ARRIVALS = 0.1, 3.0, 100
"""Limits of a growing queue:

growth by more than this share of the arrivals, or by this number of standard deviations of Poisson arrivals, if that
is less, since a small excess is significant in a long run. It is judged over at least 100 arrivals, whose number has a
deviation of 10 %. The three numbers were chosen by hand.
"""


@dataclass(frozen=True)
class Backlog:
    """Growth of the queue over the later half of the arrivals.

    Args:
        arrived: Requests that arrived after the first one of that half.
        admitted: Requests scheduled for the first time in that half.
        span_s: Its duration.
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
    """Growth of the queue; None with too few arrivals, or all at once.

    Args:
        arrival_s: Arrival times of requests that were not rejected.
        admitted_s: Times of first scheduling; NaN for never.
    """
    import numpy as np

    arrival_s = in_order(arrival_s)
    later_s = arrival_s[arrival_s.size // 2 :]
    if later_s.size <= GROWTH_ARRIVALS or later_s[0] == later_s[-1]:
        return None
    admitted = int(np.count_nonzero((admitted_s > later_s[0]) & (admitted_s <= later_s[-1])))
    return Backlog(later_s.size - 1, admitted, float(later_s[-1] - later_s[0]))


def saturation(found: Backlog | None, queue_s: float, inference_s: float) -> str:
    """Classify the load.

    Args:
        found: Growth of the queue.
        queue_s: Mean scheduling delay of a request.
        inference_s: Mean time from scheduling to the end.
    """
    if found is not None and found.grows:
        return OVERLOADED
    return BACKLOGGED if queue_s > inference_s else STABLE
