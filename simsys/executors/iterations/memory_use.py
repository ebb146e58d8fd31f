"""Memory of the passes of a program, computed without events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simsys.ops import Allocate, Pass, Release
from simsys.sums import ordered_sum


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes by name that the passes of a program hold at the peak, and at its end."""

    peak: Mapping[str, float]
    end: Mapping[str, float]


def memory_use(passes: Sequence[Pass]) -> MemoryUse:
    """Follow allocations and releases of consecutive passes."""
    changes = {each: (_bytes(each.takes), _bytes(each.gives)) for each in set(passes)}
    held = peak = 0.0
    place = 0
    for index, each in enumerate(passes):
        taken, given = changes[each]
        held += taken
        if held > peak:
            peak, place = held, index
        held -= given
    return MemoryUse(_held(passes[:place], passes[place].takes), _held(passes)) if peak else MemoryUse({}, {})


def _bytes(changes: Iterable[Allocate | Release]) -> float:
    return ordered_sum(change.nbytes or 0.0 for change in changes)


def _held(passes: Sequence[Pass], more: Iterable[Allocate] = ()) -> dict[str, float]:
    """The rest of these passes, and `more`, by name."""
    held: dict[str, float] = {}
    for each, count in Counter(passes).items():
        for sign, changes in ((count, each.takes), (-count, each.gives)):
            for change in changes:
                held[change.name] = held.get(change.name, 0.0) + sign * (change.nbytes or 0.0)
    for taken in more:
        held[taken.name] = held.get(taken.name, 0.0) + taken.nbytes
    return {name: nbytes for name, nbytes in held.items() if nbytes}
