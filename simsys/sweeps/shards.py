"""Shards: runs of consecutive points with a few seconds of work each, the same for any number of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from simsys.check import judged
from simsys.check.effort import cpu_parts
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import validate
from simsys.errors import SimsysError
from simsys.sums import ordered_sum
from simsys.sweeps.plan import with_settings

T = TypeVar("T")
SHARD_S = 2.0
"""Estimated work of a shard."""
CHECK_S = 0.01
"""Processor time to check and build a point, measured on small scenarios."""
UNKNOWN_S = 0.1
"""Assumed work of a point if the estimate fails."""
MOST = 200
SAMPLED = 5
"""Points whose work is estimated."""


def sample_of(points: Sequence[T]) -> list[T]:
    """The points whose work is estimated: the first, and others at equal distances."""
    step = max(1, (len(points) - 1) // (SAMPLED - 1))
    return list(points[::step][:SAMPLED])


def shard_size(mean_s: float | None) -> int:
    """The number of points in a shard.

    Args:
        mean_s: Estimated work of a point; None if unknown. It depends on the points alone, not on the machine.
    """
    return max(1, min(MOST, int(SHARD_S / (UNKNOWN_S if mean_s is None else mean_s))))


def estimate_s(base: Mapping[str, Any], values: Mapping[str, Any], folder: Path) -> float:
    """Approximate processor time of a point (s); arguments as `simsys.sweeps.evaluate.row_of`."""
    try:
        built = judged(validate(with_settings(base, values), SimulationConfig).located_in(folder)).built
    except SimsysError:
        built = None
    if built is None:
        return CHECK_S
    return CHECK_S + ordered_sum(seconds for job in built.jobs for seconds in cpu_parts(job).values())


def shards(points: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide points into consecutive shards of at most `size`."""
    return [points[start : start + size] for start in range(0, len(points), size)]
