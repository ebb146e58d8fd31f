"""Scales of axes: from values to pixels, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

TINY = 1e-14
"""Ranges that are smaller, relative to their values, are those of rounding."""


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic scale.

    Args:
        low: The least value.
        high: The greatest value, above `low`.
        start: Where the least value is, in pixels.
        end: Where the greatest value is, in pixels.
        log: True if equal distances are equal ratios; then `low` is above 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value in pixels; values beyond the ends are at the ends."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, about `most` of them or fewer."""
        if self.log:
            return _log_ticks(self.low, self.high, most)
        step = round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        return [place * step for place in range(first, math.floor(self.high / step + 1e-9) + 1)]


def linear(values: Iterable[float], start: float, end: float, *, zero: bool = True) -> Scale:
    """A linear scale for some values, from 0 if `zero`."""
    found = [value for value in values if math.isfinite(value)]
    low, high = min(found, default=0.0), max(found, default=1.0)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    if high - low < TINY * max(1.0, abs(low)):
        high = low + (abs(low) if abs(low) > TINY else 1.0)
    return Scale(low, high, start, end)


def logarithmic(values: Iterable[float], start: float, end: float) -> Scale:
    """A logarithmic scale for the values above 0."""
    found = [value for value in values if value > TINY and math.isfinite(value)]
    low, high = min(found, default=1.0), max(found, default=10.0)
    if high < low * 1.5:
        low, high = low / 1.5, high * 1.5
    return Scale(low, high, start, end, log=True)


def round_step(least: float) -> float:
    """The least of 1, 2 or 5 times a power of ten that is not below a number.

    Example:
        >>> round_step(0.3), round_step(17.0)
        (0.5, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-12))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]
