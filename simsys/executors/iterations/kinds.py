"""Kinds of training iterations, and in which order they come."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Kind(NamedTuple):
    """The kind of an iteration; iterations of a kind repeat.

    Args:
        phase: Index of its phase.
        checkpoint: Whether it ends with a checkpoint.
        after: The kind of the previous iteration, if that loads its batches.
    """

    phase: int
    checkpoint: bool
    after: tuple[int, bool] | None = None


def runs(count: int, starts: Sequence[int], interval: int, *, linked: bool = False) -> Iterator[tuple[Kind, int]]:
    """Runs of consecutive iterations of one kind.

    Args:
        count: Total iterations.
        starts: The first iteration of every phase, from 0 on.
        interval: Iterations between checkpoints; 0 for none.
        linked: True if an iteration depends on the kind of the previous one.

    Example:
        >>> [(kind.checkpoint, length) for kind, length in runs(8, [0], 3)]
        [(False, 2), (True, 1), (False, 2), (True, 1), (False, 2)]
    """
    iteration, before = 0, None
    while iteration < count:
        phase = bisect_right(starts, iteration) - 1
        phase_end = min([count, *starts[phase + 1 : phase + 2]])
        checkpoint = bool(interval) and (iteration + 1) % interval == 0
        end = phase_end
        if interval > 1:
            end = min(end, iteration + 1 if checkpoint else iteration + interval - 1 - iteration % interval)
        own = phase, checkpoint
        if linked and own != before:
            yield Kind(*own, before), 1
            iteration += 1
        if iteration < end:
            yield Kind(*own, own if linked else None), end - iteration
        iteration, before = end, own
