"""Sums of floats that have the same bytes on every Python; the built-in `sum` compensates for rounding since 3.12."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def ordered_sum(values: Iterable[float]) -> float:
    """Add values from the first to the last, each addition rounded to a float.

    Args:
        values: Any number of values, in any unit.

    Returns:
        Their sum, in that unit; the integer 0 if there are none.

    Example:
        >>> ordered_sum([1.0, 1e100, 1.0, -1e100])
        0.0
    """
    return reduce(add, values, 0)
