"""When output tokens came, counted in intervals of equal length, without a time for every token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.errors import UsageError
from simsys.metrics.step_log import BLOCK, StepRuns

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.serving_log import ServingLog

MOST_SECONDS = 32_000_000
"""Limit of seconds with requests in flight, each of which uses some bytes."""


def tokens_per_interval(log: ServingLog, width_s: float, count: int, *, origin_s: float = 0.0) -> np.ndarray:
    """Number of output tokens in each interval, without its end; tokens outside all intervals are not counted.

    Args:
        log: The log of steps.
        width_s: Length of an interval.
        count: Number of intervals.
        origin_s: Start of the first one.
    """
    return _tokens(log, Places(count), width_s, origin_s)


def max_per_second(log: ServingLog, seconds: BusySeconds) -> int:
    """Most output tokens in a second, counted from the first arrival, as vLLM does (``max_output_tokens_per_s``)."""
    return int(_tokens(log, seconds, 1.0, seconds.origin_s).max())


class Places:
    """Intervals from 0 on, in which something is counted.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        """Length of an array with a number for each."""

    def of(self, interval: np.ndarray) -> np.ndarray:
        """Index of the interval that contains a time; out of range if outside the run."""
        return interval

    def counted(self, interval: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """The sum of the weights, 1 each if none are given, in each of them."""
        import numpy as np

        place = self.of(interval)
        inside = (place >= 0) & (place < self.count)
        weights = None if weight is None else weight[inside]
        return np.bincount(place[inside].astype(np.int64), weights, self.count).astype(float)


class BusySeconds(Places):
    """The seconds of a run with requests in flight; idle seconds use no memory.

    Args:
        arrival_s: Arrival times, not before `origin_s`.
        ended_s: End times.
        origin_s: Start of the first second.

    Raises:
        UsageError: If there are more than `MOST_SECONDS`.
    """

    def __init__(self, arrival_s: np.ndarray, ended_s: np.ndarray, origin_s: float) -> None:
        import numpy as np

        self.origin_s = origin_s
        order = np.argsort(arrival_s, kind="stable")
        begin = np.floor(arrival_s[order] - origin_s)
        end = np.maximum.accumulate(np.floor(ended_s[order] - origin_s) + 2.0)  # one more, for what ends at a limit
        idle_before = begin[1:] > end[:-1]
        self._begin = begin[np.append(True, idle_before)]
        length = end[np.append(idle_before, True)] - self._begin
        if (total_s := float(length.sum())) > MOST_SECONDS:
            message = f"requests are under way for {total_s:.3g} s, at most {MOST_SECONDS:.3g} s (a year) are measured"
            raise UsageError(f"{message}; give fewer requests, or faster GPUs and links")
        self._end, self._place = self._begin + length, np.cumsum(length) - length
        super().__init__(int(total_s))

    def of(self, interval: np.ndarray) -> np.ndarray:
        """Where a second is, once the idle ones are left out; -1 for an idle one."""
        import numpy as np

        place: np.ndarray
        if self._begin.size == 1:
            place = interval - self._begin[0]
            return place
        period = np.maximum(np.searchsorted(self._begin, interval, side="right") - 1, 0)
        inside = (interval >= self._begin[period]) & (interval < self._end[period])
        place = np.where(inside, interval - self._begin[period] + self._place[period], -1)
        return place


def _tokens(log: ServingLog, places: Places, width_s: float, origin_s: float) -> np.ndarray:
    import numpy as np

    tokens = np.zeros(places.count)
    first_s = np.asarray(log.first_token_s)
    first_s = first_s[first_s >= 0.0]
    resumed_s = np.array([time_s for *_, time_s in log.gaps.resumed], dtype=float)
    for times_s in (*(first_s[start : start + BLOCK] for start in range(0, first_s.size, BLOCK)), resumed_s):
        tokens += places.counted(np.floor((times_s - origin_s) / width_s))
    for runs in log.steps.together():
        tokens += log.tokens_per_sequence * _of_runs(runs, places, width_s, origin_s)
    return tokens


def _of_runs(runs: StepRuns, places: Places, width_s: float, origin_s: float) -> np.ndarray:
    """Tokens of each run; a run across limits is divided by the steps that ended before each limit."""
    import numpy as np

    start = np.floor((runs.started_s + runs.first_s - origin_s) / width_s).astype(np.int64)
    end = np.floor((runs.ended_s - origin_s) / width_s).astype(np.int64)
    tokens = places.counted(end, (runs.count * runs.decode_tokens).astype(float))
    crossing = np.flatnonzero(end > start)
    limits = end[crossing] - start[crossing]
    which = np.repeat(crossing, limits)
    limit = np.repeat(start[crossing], limits) + 1
    limit += np.arange(which.size) - np.repeat(np.cumsum(limits) - limits, limits)
    before = (_steps_before(runs, which, origin_s + limit * width_s) * runs.decode_tokens[which]).astype(float)
    # What came before a limit belongs to the interval before it, and not to the one after it.
    tokens += places.counted(limit - 1, before) - places.counted(limit, before)
    return tokens


def _steps_before(runs: StepRuns, which: np.ndarray, limit_s: np.ndarray) -> np.ndarray:
    """Number of steps of runs that ended before a limit within each run: solution of a quadratic equation."""
    import numpy as np

    count, first_s, growth_s = runs.count[which], runs.first_s[which], runs.growth_s[which]
    span_s = np.maximum(limit_s - runs.started_s[which], 0.0)
    slope_s = first_s - 0.5 * growth_s
    root = np.sqrt(np.maximum(slope_s * slope_s + 2.0 * growth_s * span_s, 0.0))
    # The form of the root without a difference of nearly equal numbers; growth may be 0.
    steps = np.clip(np.floor(2.0 * span_s / np.maximum(slope_s + root, 1e-300)), 1, count - 1).astype(np.int64)
    steps -= runs.ends_s(steps, which) >= limit_s
    before: np.ndarray = steps + (runs.ends_s(steps + 1, which) < limit_s)
    return before
