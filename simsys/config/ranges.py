"""Ranges of values as text: ``1..64 x2``, ``1..64 +8 req/s``, and intervals to draw from: ``1..64 log``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from simsys.errors import UsageError

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    rf"\s*(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})"
    rf"(?:\s*(?P<kind>[x+])\s*(?P<step>{_NUMBER})|\s+(?P<log>log))?(?:\s+(?P<unit>[A-Za-z%$][\w/%$ ]*))?\s*"
)
_LOOKS_LIKE_ONE = re.compile(rf"\s*{_NUMBER}\s*\.\.")
FORM = "write LOW..HIGH, LOW..HIGH xFACTOR or LOW..HIGH +STEP, with a unit at the end if there is one: 1..64 x2"


@dataclass(frozen=True, slots=True)
class Range:
    """The values from `low` to at most `high`.

    Args:
        low: The first value.
        high: The largest possible value; a range ends before it if no step reaches it.
        step: Difference between two values, or their ratio if `is_geometric`.
        is_geometric: Whether each value is a multiple of the value before it.
        unit: Unit of each value; empty if they are numbers.
        has_step: Whether the step was written. A range without a step is also an interval.
        is_log: Whether an interval is drawn from evenly on a logarithmic scale.
    """

    low: Decimal
    high: Decimal
    step: Decimal = Decimal(1)
    is_geometric: bool = False
    unit: str = ""
    has_step: bool = True
    is_log: bool = False

    @property
    def count(self) -> int:
        """The number of values, without making them."""
        if self.is_geometric:
            steps = int((self.high / self.low).ln() / self.step.ln() + Decimal("1e-9"))
            return steps + 1
        return int((self.high - self.low) / self.step) + 1

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers, written without a decimal point and without a unit."""
        return not self.unit and all(_is_whole(each) for each in (self.low, self.high, self.step))

    def __iter__(self) -> Iterator[int | float | str]:
        value = self.low
        for _ in range(self.count):
            yield self.written(value)
            value = value * self.step if self.is_geometric else value + self.step

    def at(self, share: float) -> int | float | str:
        """The value of the interval below which this share of its values lies.

        Args:
            share: From 0 to 1, excluding 1.
        """
        low, high = float(self.low), float(self.high)
        if self.is_whole:
            high += 1.0
        value = low * (high / low) ** share if self.is_log else low + (high - low) * share
        if self.is_whole:
            return min(int(value), int(self.high))
        return self.written(Decimal(f"{min(value, float(self.high)):.6g}"))

    def written(self, value: Decimal) -> int | float | str:
        """A value as in an experiment file."""
        if self.unit:
            return f"{value.normalize():f} {self.unit}"
        return int(value) if self.is_whole else float(value)


def _is_whole(value: Decimal) -> bool:
    return isinstance(exponent := value.as_tuple().exponent, int) and exponent >= 0


def is_range(value: object) -> bool:
    """Whether a value is meant as a range."""
    return isinstance(value, str) and _LOOKS_LIKE_ONE.match(value) is not None


def parse_range(text: str) -> Range:
    """Read a range.

    Args:
        text: Such as ``1..64 x2`` (1, 2, 4 … 64), ``1..64 +8`` (1, 9 … 57), ``1..4`` (1, 2, 3, 4), ``2..8 x2 req/s``,
            or ``1..64 log``, which is an interval.

    Raises:
        UsageError: If it has another form or no values.

    Example:
        >>> list(parse_range("1..64 x4")), list(parse_range("0.5..2 +0.5 ms"))
        ([1, 4, 16, 64], ['0.5 ms', '1 ms', '1.5 ms', '2 ms'])
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a range; {FORM}")
    low, high = Decimal(found["low"]), Decimal(found["high"])
    step, is_geometric = Decimal(found["step"] or 1), found["kind"] == "x"
    if not all(math.isfinite(float(each)) and (not each or abs(each.adjusted()) < 60) for each in (low, high, step)):
        raise UsageError(f"{text!r} has a number that is too large or too small")
    if high < low:
        raise UsageError(f"{text!r} is empty: {found['high']} is below {found['low']}")
    if is_geometric and (low <= 0 or step <= 1):
        raise UsageError(f"{text!r}: a range with a factor starts above 0, and its factor is above 1")
    if found["log"] and low <= 0:
        raise UsageError(f"{text!r}: a logarithmic interval starts above 0")
    if step <= 0:
        raise UsageError(f"{text!r}: a step is above 0")
    return Range(low, high, step, is_geometric, (found["unit"] or "").strip(), bool(found["kind"]), bool(found["log"]))


def count_of(values: Sequence[Any] | str) -> int:
    """The number of values of a list or a range, without making them; a range in a list counts with its values."""
    if isinstance(values, str):
        return parse_range(values).count
    return sum(parse_range(each).count if is_range(each) else 1 for each in values)


def values_of(values: Sequence[Any] | str) -> list[Any]:
    """The values of a list or a range.

    Example:
        >>> values_of(["1..4 x2", 6])
        [1, 2, 4, 6]
    """
    given = [values] if isinstance(values, str) else values
    return [value for each in given for value in (parse_range(each) if is_range(each) else [each])]
