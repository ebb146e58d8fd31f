"""Lanes of a trace: slices of one lane never overlap, because viewers drop the later one of two that do."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LONGEST_NS = 9_000_000_000_000_000_000
"""Latest time of a trace, 285 years: an integer of 64 bits."""


def nanoseconds(seconds: np.ndarray) -> np.ndarray:
    """Times as whole nanoseconds; a time that is not later in seconds is not later here.

    Raises:
        ValueError: A time is later than `LONGEST_NS`.
    """
    import numpy as np

    scaled = np.rint(seconds * 1e9)
    if scaled.size and float(scaled.max()) > LONGEST_NS:
        raise ValueError("a trace lasts at most 285 years")
    whole: np.ndarray = scaled.astype(np.int64)
    return whole


def in_lanes(lane: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order slices by lane and start, and move slices that overlap an earlier one of their lane to a further lane.

    Args:
        lane: The lane of each slice, a number.
        start_ns: Its start.
        end_ns: Its end.

    Returns:
        The order, and for each slice in this order 0, or the number of the further lane: 1, 2 …

    Example:
        >>> import numpy as np
        >>> order, further = in_lanes(np.array([0, 0, 0]), np.array([0, 9, 4]), np.array([5, 12, 9]))
        >>> order.tolist(), further.tolist()
        ([0, 2, 1], [0, 1, 0])
    """
    import numpy as np

    order = np.lexsort((end_ns, start_ns, lane))
    lane, start_ns, end_ns = lane[order], start_ns[order], end_ns[order]
    further = np.zeros(order.size, dtype=np.int64)
    edges = np.flatnonzero(np.diff(lane)) + 1
    bounds = [0, *edges.tolist(), order.size] if order.size else []
    for first, end in pairwise(bounds):
        starts, ends = start_ns[first:end], end_ns[first:end]
        if (starts[1:] < np.maximum.accumulate(ends)[:-1]).any():
            further[first:end] = _spread(starts.tolist(), ends.tolist())
    return order, further


def _spread(starts: list[int], ends: list[int]) -> list[int]:
    """For slices in order of their starts, the lowest lane that is free."""
    busy: list[tuple[int, int]] = []  # by end: lanes with a slice under way
    free: list[int] = []
    found, lanes = [], 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heappush(busy, (end, lane))
        found.append(lane)
    return found
