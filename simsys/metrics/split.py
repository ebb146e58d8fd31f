"""Division of a time span among purposes; every moment counts once."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import pairwise, repeat
from operator import add, lt

from simsys.sums import ordered_sum

Span = tuple[float, float]
"""Start and end, in seconds."""
Piece = tuple[float, float, str]
"""Start and end in seconds, and what for."""

_SAME_MOMENT = 1e-9  # times that differ by no more of the whole stretch are one


class TimeSplit:
    """Divides a time span among concurrent activities.

    Args:
        start_s: Start of the span.
        end_s: End of the span.

    Example:
        >>> split = TimeSplit(0.0, 10.0)
        >>> split.take([(1.0, 4.0, "computation")])
        {'computation': 3.0}
        >>> split.take([(3.0, 6.0, "data"), (5.0, 8.0, "tensor")])
        {'data': 2.0, 'tensor': 2.0}
        >>> split.before([10.0])
        2.0
    """

    def __init__(self, start_s: float, end_s: float) -> None:
        self._start_s, self._end_s = start_s, end_s
        self._taken: list[Span] = []  # apart from each other and in order, without those just added
        self._added: list[Span] = []

    def take(self, pieces: Sequence[Piece]) -> dict[str, float]:
        """Assign the free time of `pieces`; return the time by purpose.

        A moment of several pieces counts for the one that began first; with equal starts (up to rounding), for the one
        that ends first.
        """
        if not pieces:
            return {}
        moment_s = _SAME_MOMENT * (self._end_s - self._start_s) or 1.0
        seconds: dict[str, float] = {}
        taken, added = self._merge(), self._added
        reached_s, first = self._start_s, 0
        for start_s, end_s, purpose in _in_order(pieces, moment_s):
            start_s, end_s = max(start_s, reached_s), min(end_s, self._end_s)
            free_s = 0.0
            if end_s > start_s:
                reached_s = end_s
                while first < len(taken) and taken[first][1] <= start_s:
                    first += 1
                free_s = _free_seconds(taken, first, start_s, end_s) if first < len(taken) else end_s - start_s
                added.append((start_s, end_s))
            seconds[purpose] = seconds.get(purpose, 0.0) + free_s
        return seconds

    def _merge(self) -> list[Span]:
        """All that is taken, apart from each other and in order."""
        if self._added:
            self._taken, self._added = _merged([*self._taken, *self._added]), []
        return self._taken

    def free(self) -> list[Span]:
        """The spans that nothing has taken, in order."""
        edges = [(self._start_s, self._start_s), *self._merge(), (self._end_s, self._end_s)]
        return [(end_s, start_s) for (_, end_s), (start_s, _) in pairwise(edges) if start_s > end_s]

    def before(self, times_s: Container[float]) -> float:
        """Free time immediately before each of `times_s`, at which something begins or all ends."""
        return ordered_sum(end_s - start_s for start_s, end_s in self.free() if end_s in times_s)


def _in_order(pieces: Sequence[Piece], moment_s: float) -> Sequence[Piece]:
    """Pieces by their beginnings, those that begin within one moment by their ends and purposes."""
    starts_s = [start_s for start_s, _, _ in pieces]
    if all(map(lt, map(add, starts_s, repeat(moment_s)), starts_s[1:])):
        return pieces  # most pieces are reported in order
    return sorted(pieces, key=lambda piece: (round(piece[0] / moment_s), round(piece[1] / moment_s), piece[2]))


def _free_seconds(taken: list[Span], index: int, start_s: float, end_s: float) -> float:
    """Free time of a span, if `index` is the first taken span that ends after its start."""
    free_s = 0.0
    while index < len(taken) and taken[index][0] < end_s:
        free_s += max(0.0, taken[index][0] - start_s)
        start_s = taken[index][1]
        index += 1
    return free_s + max(0.0, end_s - start_s)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans with the same union, in order."""
    merged: list[Span] = []
    for start_s, end_s in sorted(spans):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end_s)
        else:
            merged.append((start_s, end_s))
    return merged
