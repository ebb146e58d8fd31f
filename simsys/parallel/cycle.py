"""The repeating part of a sequence of steps over micro-batches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

FEWEST = 4
"""Fewest repetitions of a cycle."""
Step = tuple[Hashable, Hashable]
"""What a rank does, and the number of the micro-batch for which it does it."""


class Cycle(NamedTuple):
    """A repeating part of a sequence of steps.

    Args:
        steps: Number of steps of a cycle.
        micro_batches: Number of micro-batches of a cycle.
        start: Place of the first step of the first cycle.
        end: Place after the last step that a step of the next cycle equals.
    """

    steps: int
    micro_batches: int
    start: int
    end: int


def cycle_of(steps: Sequence[Step]) -> Cycle | None:
    """The shortest cycle in the middle of a sequence; None if there is none, or fewer than `FEWEST`.

    Args:
        steps: What a rank does in order, each with the number of its micro-batch.

    Example:
        >>> cycle_of([(kind, number) for number in range(8) for kind in ("forward", "backward")])
        Cycle(steps=2, micro_batches=1, start=0, end=14)
    """
    if not all(isinstance(number, int) for _, number in steps):
        return None

    def repeats(place: int, length: int, count: int) -> bool:
        (what, number), (other, later) = steps[place], steps[place + length]
        return what == other and number + count == later  # type: ignore[operator]  # integers, see above

    middle = len(steps) // 2
    for length in range(1, len(steps) // FEWEST):
        count: int = steps[middle + length][1] - steps[middle][1]  # type: ignore[operator]
        if count < 1 or not all(repeats(place, length, count) for place in range(middle, middle + length)):
            continue
        start, end = middle, middle + length
        while start and repeats(start - 1, length, count):
            start -= 1
        while end + length < len(steps) and repeats(end, length, count):
            end += 1
        if end - start >= FEWEST * length:
            return Cycle(length, count, start, end)
    return None
