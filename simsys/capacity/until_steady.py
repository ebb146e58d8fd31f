"""The rule that ends a serving run when its batch and its queue no longer grow, or when it misses its demands."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from simsys.metrics.growth import Growth, growth
from simsys.metrics.saturation import backlog
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.window import completed_until_s
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    import numpy as np

FIRST, EARLIEST, MEASURED = 250, 4000, 1000
"""Requests before the first decision, before the first one that a run is steady, and least requests that are measured.

The decisions come at doubling numbers. 1,000 requests are 10 beyond a 99th percentile."""


REQUESTS, TIME = "the limit of requests", "the limit of computing time"
"""What ends a run without another verdict."""


class Verdict(StrEnum):
    """How a run until the steady state ended."""

    STEADY = "steady"
    OVERLOADED = "overloaded"
    GROWING = "still growing"
    MISSED = "missed"


class Missed(Enum):
    """How far a run misses what is demanded; twice by little counts as once by far."""

    NOTHING = 0
    BY_LITTLE = 1
    BY_FAR = 2


class UntilSteady:
    """Decides at doubling numbers of requests, by the later half of them.

    Args:
        most_seconds: Longest wall-clock time of the run (s).
        misses: How far the later half misses what is demanded (`Missed`): called with the log, and its start and end.
            A run that begins empty has lower latencies than the steady state, so such a run ends if it grows, if it
            misses by far, or if it misses twice in a row.
    """

    def __init__(
        self,
        most_seconds: float | None = None,
        misses: Callable[[ServingLog, float, float], Missed] = lambda *_: Missed.NOTHING,
    ) -> None:
        self._most_seconds, self._missed = most_seconds, misses
        self.verdict = Verdict.GROWING
        """The result."""
        self.limit = ""
        """The limit that ended a run without another verdict."""
        self.in_system: Growth | None = None
        """Growth of the number of requests in the system over the later half."""
        self.in_queue: Growth | None = None
        """Growth of the number of waiting requests over the later half."""
        self._behind = False  # whether a run to this time is overloaded by the number of admitted requests
        self.since_s = self.until_s = 0.0
        """The later half: from the middle arrival to the last one."""

    def watch(self, log: ServingLog) -> None:
        """Begin."""
        self.log = log
        self.verdict, self.limit = Verdict.GROWING, REQUESTS
        self._began_s = time.perf_counter()
        self._place, self._misses = min(FIRST, len(log.requests)), 0

    def first_s(self, requests: RequestTable) -> float:
        """The arrival of the first requests; of a closed loop, where it is unknown, a second."""
        return 1.0 if requests.concurrency else requests.arrival_s[self._place - 1]

    def later_s(self, now_s: float) -> float | None:
        """The time at which twice as many requests have arrived; None if the run has a verdict or is at a limit."""
        log = self.log
        come_s = log.arrived_s
        come_s = come_s[(come_s >= 0.0) & (come_s <= now_s)]
        verdict = self._judged(come_s, now_s)
        if verdict is not None:
            self.verdict, self.limit = verdict, ""
            return None
        used_s = time.perf_counter() - self._began_s
        if self._most_seconds is not None and 2.0 * used_s > self._most_seconds:
            self.limit = TIME
            return None
        if come_s.size >= len(log.requests) or self._place >= len(log.requests):
            return None
        if log.requests.concurrency:
            return 2.0 * now_s
        while log.requests.arrival_s[self._place - 1] <= now_s and self._place < len(log.requests):
            self._place = min(2 * self._place, len(log.requests))
        return max(now_s, log.requests.arrival_s[self._place - 1])

    def _judged(self, come_s: np.ndarray, now_s: float) -> Verdict | None:
        """The verdict, if there is one yet."""
        import numpy as np

        if come_s.size < FIRST:
            return None
        middle = come_s.size // 2
        self.since_s, self.until_s = float(np.partition(come_s, middle)[middle]), now_s
        self._measure_growth(now_s)
        if self.in_system is None or self.in_queue is None:
            return None
        enough, large = come_s.size >= EARLIEST, self.in_system.is_large or self.in_queue.is_large
        if enough and self.in_system.has_ended and self.in_queue.has_ended and not self._behind:
            until_s = completed_until_s(self.log, now_s)
            if np.count_nonzero((come_s >= self.since_s) & (come_s < until_s)) >= MEASURED:
                return Verdict.STEADY
        missed = self._missed(self.log, self.since_s, now_s)
        self._misses = self._misses + missed.value if missed.value and enough else 0
        if missed.value and (large or self._misses >= Missed.BY_FAR.value):
            return Verdict.MISSED
        return Verdict.OVERLOADED if enough and self.in_queue.is_large else None

    def _measure_growth(self, now_s: float) -> None:
        import numpy as np

        log = self.log
        arrived_s = log.arrived_s
        kept = (arrived_s >= 0.0) & (arrived_s <= now_s)
        kept[list(log.rejected)] = False
        arrived_s = arrived_s[kept]
        finished_s, admitted_s = (np.asarray(each)[kept] for each in (log.finished_s, log.admitted_s))
        self.in_system = growth(arrived_s, finished_s[finished_s >= 0.0], self.since_s, now_s)
        self.in_queue = growth(arrived_s + log.api_s, admitted_s[admitted_s >= 0.0], self.since_s, now_s)
        behind = backlog(arrived_s, np.where(admitted_s >= 0.0, admitted_s, np.nan))
        self._behind = behind is not None and behind.grows
