"""Values that change at known times, such as the speed of a GPU that throttles."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

EARLY = 1e-9
"""How much earlier a change takes effect, as a share of its time.

Sums of durations are rounded differently at different levels of detail. With this margin, an operation that begins at
the moment of a change begins after it at every level.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline(Generic[T]):
    """One value at any time; compared by identity.

    Args:
        starts_s: Since when each of the values holds; increasing, the first is 0.
        values: The values.
    """

    starts_s: tuple[float, ...]
    values: tuple[T, ...]

    @property
    def changes_s(self) -> tuple[float, ...]:
        """When the value changes."""
        return self.starts_s[1:]

    def at(self, time_s: float) -> T:
        """The value at a time."""
        return self.values[bisect_right(self.starts_s, time_s) - 1]


@dataclass(frozen=True, slots=True)
class Period:
    """A span of time, without its end; an end of infinity is none."""

    start_s: float
    end_s: float = float("inf")


def timeline(periods: Iterable[Period], value: Callable[[tuple[int, ...]], T]) -> Timeline[T]:
    """A value that depends on the periods that contain a time.

    Args:
        periods: The periods; they may overlap.
        value: Returns the value within the periods with these indexes, in order.

    Example:
        >>> heat = timeline([Period(0.0, 4.0), Period(2.0)], lambda inside: len(inside))
        >>> [heat.at(time_s) for time_s in (1.0, 3.0, 5.0)]
        [1, 2, 1]
    """
    early = [Period(each.start_s * (1.0 - EARLY), each.end_s * (1.0 - EARLY)) for each in periods]
    times_s = {0.0, *(each.start_s for each in early), *(each.end_s for each in early)}
    found: dict[tuple[int, ...], T] = {}
    starts_s: list[float] = []
    values: list[T] = []
    for start_s in sorted(times_s - {float("inf")}):
        inside = tuple(place for place, each in enumerate(early) if each.start_s <= start_s < each.end_s)
        if inside not in found:
            found[inside] = value(inside)
        if not values or values[-1] is not found[inside]:
            starts_s.append(start_s)
            values.append(found[inside])
    return Timeline(tuple(starts_s), tuple(values))
