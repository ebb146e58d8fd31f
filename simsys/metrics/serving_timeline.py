"""Time line of a serving run: means over intervals of equal length, computed after the run.

Values are means, not samples: a value that holds for a part of an interval counts for that part. So the means of all
intervals give the mean of the run, and Little's law holds exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from simsys.metrics.cache_use import changes_of_blocks
from simsys.metrics.grouping import grouped
from simsys.metrics.step_log import BLOCK
from simsys.metrics.token_rate import tokens_per_interval

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.serving_log import ServingLog

Changes: TypeAlias = "tuple[np.ndarray, np.ndarray]"
"""Times at which something changes, and by how much."""
MOST = 4 * BLOCK
"""Changes and intervals that are looked at together."""
POINTS = 1000
"""Largest number of intervals, for a picture."""


def interval_s(ended_s: float, points: int = POINTS) -> float:
    """Length of the intervals: the shortest of 1, 2 or 5 times a power of ten of which no more are needed.

    Example:
        >>> interval_s(166.0), interval_s(1000.0), interval_s(0.3)
        (0.2, 1.0, 0.0005)
    """
    least_s = ended_s / points
    power = math.floor(math.log10(least_s))
    lengths = (float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5))
    return next(length_s for length_s in lengths if length_s >= least_s * (1 - 1e-12))


class Timeline:
    """The intervals of a run, for counting.

    Args:
        ended_s: End of the last interval, above 0.
        width_s: Length of the other intervals.
    """

    def __init__(self, ended_s: float, width_s: float) -> None:
        import numpy as np

        self.width_s = width_s
        self.count = max(1, math.ceil(ended_s / width_s * (1 - 1e-12)))
        self.time_s = np.arange(self.count) * width_s
        """Where they begin."""
        self.length_s = np.full(self.count, width_s)
        self.length_s[-1] = ended_s - self.time_s[-1]

    def mean(self, times_s: np.ndarray, changes: np.ndarray | float) -> np.ndarray:
        """Mean in each interval of what begins at 0 and changes at some times, in any order, by some amounts."""
        import numpy as np

        if not isinstance(changes, np.ndarray):
            changes = np.full(times_s.size, changes)
        parts = (slice(start, start + BLOCK) for start in range(0, times_s.size, BLOCK))
        return self.mean_of_all((times_s[part], changes[part]) for part in parts)

    def mean_of_all(self, parts: Iterable[Changes]) -> np.ndarray:
        """The sum of the means of several things that change, as of `mean`, added one after another."""
        import numpy as np

        mean = np.zeros(self.count)
        for group in grouped(parts, lambda part: part[0].size + self.count, MOST):
            for each in self._means(group):
                mean += each
        return mean

    def _means(self, parts: Sequence[Changes]) -> np.ndarray:
        """The mean of each thing in each interval, a row for each thing."""
        import numpy as np

        times_s, changes = map(np.concatenate, zip(*parts, strict=True))
        row = np.repeat(np.arange(len(parts)) * self.count, [times_s.size for times_s, _ in parts])
        place = (times_s / self.width_s).astype(np.int64)
        inside = place < self.count
        place, changes = place[inside], changes[inside]
        left_s = (self.time_s + self.length_s)[place] - times_s[inside]
        place += row[inside]
        shape = len(parts), self.count
        mean: np.ndarray = np.bincount(place, changes * left_s, math.prod(shape)).reshape(shape) / self.length_s
        mean[:, 1:] += np.cumsum(np.bincount(place, changes, math.prod(shape)).reshape(shape), axis=1)[:, :-1]
        return mean

    def sums(self, times_s: np.ndarray, amounts: np.ndarray | None = None) -> np.ndarray:
        """The sum in each interval of what comes at some times, 1 each if no amounts are given."""
        import numpy as np

        place = (times_s / self.width_s).astype(np.int64)
        return np.bincount(np.minimum(place, self.count - 1), amounts, minlength=self.count)

    def rate(self, times_s: np.ndarray) -> np.ndarray:
        """Number of times in each interval, per second."""
        rate: np.ndarray = self.sums(times_s) / self.length_s
        return rate


def timeline(log: ServingLog, ended_s: float, points: int = POINTS) -> Mapping[str, np.ndarray]:
    """Columns of a table with a row for each interval; none without any step.

    They are the start of the interval relative to the start of the run, requests waiting and running, decoding
    sequences in the batch, share of the KV cache in use, requests that arrive, are completed and are preempted, and
    output tokens, per second; with prefix caching, the hit rate in the interval.
    """
    seconds = ended_s - log.starts_s
    if seconds <= 0.0:
        return {}
    times = Timeline(seconds, interval_s(seconds, points))
    arrived_s, finished_s = _seen(log, log.arrived_s), _seen(log, log.finished_s)
    arrived_s = arrived_s[arrived_s <= seconds]
    tokens = tokens_per_interval(log, times.width_s, times.count + 1, origin_s=log.starts_s)
    tokens[-2] += tokens[-1]  # what ends with the last interval
    columns = {
        "time_s": times.time_s,
        **_requests(log, times, arrived_s, finished_s),
        **_batches(log, times),
        "arrivals_per_s": times.rate(arrived_s),
        "completions_per_s": times.rate(finished_s),
        "preemptions_per_s": times.rate(_seen(log, log.preempted_s)),
        "output_tokens_per_s": tokens[:-1] / times.length_s,
    }
    return {**columns, **_prefix_hits(log, times)}


def means(columns: Mapping[str, np.ndarray], ended_s: float) -> dict[str, float]:
    """Means over the whole run of requests and KV cache in the intervals; none without intervals."""
    import numpy as np

    if not columns:
        return {}
    length_s = np.diff(columns["time_s"], append=ended_s)
    names = [name for name in ("waiting", "running", "kv_cache_usage") if name in columns]
    return {f"mean_{name}": float((columns[name] * length_s).sum() / ended_s) for name in names}


def _requests(
    log: ServingLog, times: Timeline, arrived_s: np.ndarray, finished_s: np.ndarray
) -> Mapping[str, np.ndarray]:
    """Requests that wait at the scheduler, and requests that run, be it in prefill or decode."""
    preempted_s, admitted_s = _seen(log, log.preempted_s), _seen(log, log.admitted_s)
    again_s, rejected_s = _seen(log, log.readmitted_s), _seen(log, log.rejected_s)
    cancelled = log.cancelled.values()
    waited_s, ran_s = (
        _seen(log, [each.time_s for each in cancelled if each.waiting is waits]) for waits in (True, False)
    )
    return {
        "waiting": _level(times, [arrived_s + log.api_s, preempted_s], [admitted_s, again_s, rejected_s, waited_s]),
        "running": _level(times, [admitted_s, again_s], [finished_s, preempted_s, ran_s]),
    }


def _level(times: Timeline, coming_s: list[np.ndarray], leaving_s: list[np.ndarray]) -> np.ndarray:
    import numpy as np

    parts = [*((part_s, 1.0) for part_s in coming_s), *((part_s, -1.0) for part_s in leaving_s)]
    level = np.zeros(times.count)
    for part_s, change in parts:
        level += times.mean(part_s, change)
    return _clean(level)


def _batches(log: ServingLog, times: Timeline) -> Mapping[str, np.ndarray]:
    """Sequences of the steps that are under way, none when there is no step, and blocks of the KV cache in use."""
    import numpy as np

    decoding = (
        (
            np.concatenate([runs.started_s, runs.ended_s]) - log.starts_s,
            np.concatenate([runs.decode_tokens, -runs.decode_tokens]).astype(float),
        )
        for runs in log.steps.blocks()
    )
    columns = {"batch_size": _clean(times.mean_of_all(decoding))}
    if not log.kv_blocks:
        return columns
    held = ((times_s - log.starts_s, changes) for times_s, changes in changes_of_blocks(log.engine_logs, log.steps))
    return columns | {"kv_cache_usage": _clean(times.mean_of_all(held)) / log.kv_blocks}


def _prefix_hits(log: ServingLog, times: Timeline) -> Mapping[str, np.ndarray]:
    """The hit rate of lookups, 0 without lookups; no column without a prefix cache."""
    import numpy as np

    if not log.lookups:
        return {}
    times_s, hits, queries = np.asarray(log.lookups).reshape(-1, 3).T
    found, sought = (times.sums(times_s - log.starts_s, tokens) for tokens in (hits, queries))
    return {"prefix_cache_hit_rate": found / np.maximum(sought, 1.0)}


def _clean(mean: np.ndarray) -> np.ndarray:
    """Without the rest of rounding that many changes leave where they cancel."""
    import numpy as np

    return np.where(np.abs(mean) < 1e-6, 0.0, mean)


def _seen(log: ServingLog, times_s: object) -> np.ndarray:
    """The times that there are, from the start of the run."""
    import numpy as np

    known_s = np.asarray(times_s, dtype=float)
    return known_s[known_s >= 0.0] - log.starts_s
