"""Equal micro-batches that were not simulated, put back into a recorded iteration as copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def with_cycles(
    starts_s: np.ndarray,
    ends_s: np.ndarray,
    which: np.ndarray,
    cycles: Sequence[tuple[int, float, float]],
    iteration_ends_s: Sequence[float],
    most: int = sys.maxsize,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Operations with the cycles that were left out.

    What starts in a cycle is copied, and what the iteration reports after it, as if there were no further cycles,
    comes later by their time. Cycles that would be too many are not copied, so that their time stays empty.

    Args:
        starts_s: When operations start.
        ends_s: When they end.
        which: What they are.
        cycles: For each iteration with cycles left out: how many, and start and end of the one that they equal.
        iteration_ends_s: When iterations end, in order.
        most: The largest number of operations.

    Example:
        >>> import numpy as np
        >>> columns = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2])
        >>> [column.tolist() for column in with_cycles(*columns, [(2, 1.0, 2.0)], [5.0])]
        [[0.0, 1.0, 4.0, 2.0, 3.0], [1.0, 2.0, 5.0, 3.0, 4.0], [0, 1, 2, 1, 1]]
    """
    import numpy as np

    if not cycles:
        return starts_s, ends_s, which
    moved_s = np.zeros(starts_s.size)
    copies = [], [], []  # type: tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]
    total = starts_s.size
    for count, start_s, end_s in cycles:
        whole_s = next((each for each in iteration_ends_s if each > start_s), np.inf)
        length_s = end_s - start_s
        slack_s = 1e-9 * length_s
        inside = (starts_s >= start_s - slack_s) & (starts_s < end_s - slack_s)
        moved_s[(starts_s >= end_s - slack_s) & (starts_s < whole_s)] += count * length_s
        size = int(inside.sum())
        shown = min(count, max(0, most - total) // max(1, size))
        total += shown * size
        shift_s = np.repeat(np.arange(1, shown + 1) * length_s, size)
        for column, kept, shifts in zip(copies, (starts_s, ends_s, which), (shift_s, shift_s, None), strict=True):
            repeated = np.tile(kept[inside], shown)
            column.append(repeated if shifts is None else repeated + shifts)
    starts_s, ends_s = starts_s + moved_s, ends_s + moved_s
    return tuple(np.concatenate([kept, *more]) for kept, more in zip((starts_s, ends_s, which), copies, strict=True))  # type: ignore[return-value]
