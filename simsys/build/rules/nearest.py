"""Numbers near a number that does not fit, for proposals in its place."""

from __future__ import annotations

MOST = 8
"""Most numbers that are proposed in place of one."""


def nearest_divisors(number: int, near: int, also: int = 0) -> list[int]:
    """The divisors of `number` (and `also`) other than `near`, by their distance from it; some of them.

    Example:
        >>> nearest_divisors(12, 5)
        [4, 6, 3, 2, 1, 12]
    """
    common = [d for d in range(1, min(number, 1024) + 1) if number % d == 0 and also % d == 0 and d != near]
    return sorted(common, key=lambda d: (abs(d - near), d))[:MOST]


def nearest_multiples(unit: int, near: int, most: int = 0) -> list[int]:
    """The multiples of `unit` next to `near`, the lower one first; none above `most`, if that is given.

    Example:
        >>> nearest_multiples(6, 1024), nearest_multiples(6, 1024, 1024)
        ([1020, 1026], [1020])
    """
    below = near // unit * unit
    return [each for each in (below, below + unit) if each > 0 and (not most or each <= most)]
