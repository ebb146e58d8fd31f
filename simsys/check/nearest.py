"""Advice on numbers: the nearest ones that would fit."""

from __future__ import annotations


def nearest_divisors(number: int, near: int, also: int = 0, key: str = "tp_degree") -> str:
    """The degrees around `near` that divide `number` (and `also`), as advice.

    Example:
        >>> nearest_divisors(12, 5)
        'tp_degree: 3 or 4 or 6 would fit'
    """
    common = [d for d in range(1, min(number, 1024) + 1) if number % d == 0 and also % d == 0]
    nearest = sorted(sorted(common, key=lambda d: (abs(d - near), d))[:3])
    return f"{key}: {' or '.join(map(str, nearest))} would fit"
