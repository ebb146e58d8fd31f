"""When output tokens came, counted in intervals of equal length, without a time for every token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from simsys.metrics.step_log import BLOCK, StepRuns

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.serving_log import ServingLog


def tokens_per_interval(log: ServingLog, width_s: float, count: int, *, origin_s: float = 0.0) -> np.ndarray:
    """How many output tokens came in each interval, its end not included; those outside of all are not counted.

    Args:
        log: What happened.
        width_s: Length of an interval.
        count: Intervals.
        origin_s: Where the first one begins.
    """
    import numpy as np

    tokens = np.zeros(count)
    first_s = np.asarray(log.first_token_s)
    first_s = first_s[first_s >= 0.0]
    resumed_s = np.array([time_s for *_, time_s in log.gaps.resumed], dtype=float)
    for times_s in (*(first_s[start : start + BLOCK] for start in range(0, first_s.size, BLOCK)), resumed_s):
        tokens += _counted(np.floor((times_s - origin_s) / width_s), np.ones(times_s.size), count)
    for runs in log.steps.blocks():
        tokens += log.tokens_per_sequence * _of_runs(runs, width_s, count, origin_s)
    return tokens


def max_per_second(log: ServingLog, started_s: float, ended_s: float) -> int:
    """Most output tokens in a second, counted from the first arrival, as vLLM does (``max_output_tokens_per_s``)."""
    return int(tokens_per_interval(log, 1.0, math.ceil(ended_s - started_s) + 1, origin_s=started_s).max())


def _counted(place: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    import numpy as np

    inside = (place >= 0) & (place < count)
    return np.bincount(place[inside].astype(np.int64), weight[inside], count).astype(float)


def _of_runs(runs: StepRuns, width_s: float, count: int, origin_s: float) -> np.ndarray:
    """Each run's tokens; those of a run that reaches over limits are divided by how many steps ended before each."""
    import numpy as np

    start = np.floor((runs.started_s + runs.first_s - origin_s) / width_s).astype(np.int64)
    end = np.floor((runs.ended_s - origin_s) / width_s).astype(np.int64)
    tokens = _counted(end, (runs.count * runs.decode_tokens).astype(float), count)
    crossing = np.flatnonzero(end > start)
    limits = end[crossing] - start[crossing]
    which = np.repeat(crossing, limits)
    limit = np.repeat(start[crossing], limits) + 1
    limit += np.arange(which.size) - np.repeat(np.cumsum(limits) - limits, limits)
    before = (_steps_before(runs, which, origin_s + limit * width_s) * runs.decode_tokens[which]).astype(float)
    # What came before a limit belongs to the interval before it, and not to the one after it.
    tokens += _counted(limit - 1, before, count) - _counted(limit, before, count)
    return tokens


def _steps_before(runs: StepRuns, which: np.ndarray, limit_s: np.ndarray) -> np.ndarray:
    """How many steps of some runs ended before a limit that falls within each: where their sum, a quadratic, does."""
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
