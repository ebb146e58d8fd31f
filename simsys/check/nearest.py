"""Advice on numbers: the nearest ones that would fit."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_divisors(number: int, near: int, also: int = 0, key: str = "tp_degree") -> str:
    """The degrees around `near` that divide `number` (and `also`), as advice.

    Example:
        >>> nearest_divisors(12, 5)
        'tp_degree: 3 or 4 or 6 would fit'
    """
    return f"{either(key, divisors_near(number, near, also))} would fit"


def divisors_near(number: int, near: int, also: int = 0) -> list[int]:
    """The three divisors of `number` (and `also`) around `near`.

    Example:
        >>> divisors_near(1024, 3)
        [1, 2, 4]
    """
    common = [d for d in range(1, min(number, 1024) + 1) if number % d == 0 and also % d == 0]
    return sorted(sorted(common, key=lambda d: (abs(d - near), d))[:3])


def nearest_multiples(unit: int, near: int, most: int = 0) -> list[int]:
    """The multiples of `unit` next to `near`, the lower one first; none above `most`, if that is given.

    Example:
        >>> nearest_multiples(6, 1024), nearest_multiples(6, 1024, 1024)
        ([1020, 1026], [1020])
    """
    below = near // unit * unit
    return [each for each in (below, below + unit) if each > 0 and (not most or each <= most)]


def either(key: str, values: Iterable[int]) -> str:
    """A setting with the values that it may have.

    Example:
        >>> either("pp_stages", [2, 4])
        'pp_stages: 2 or 4'
    """
    return f"{key}: {' or '.join(map(str, values))}"
