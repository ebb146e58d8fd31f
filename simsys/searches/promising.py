"""The candidates of a search in the order of their bounds, which are made exact when their turn comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from simsys.searches.candidates import Candidate

NEAR = 0.01
"""Share by which bounds of candidates differ that are about as promising."""
Some = TypeVar("Some", bound=Candidate)


class Promising(Generic[Some]):
    """An iterator of candidates, the one with the best bound first; of equal bounds, the simplest first.

    Args:
        candidates: The candidates, some with loose bounds.
        tightened: Returns a candidate with its exact bound.
        simple_first: Whether the simplest of the most promising ones comes before all others: its simulation is short,
            and what it attains ends the simulations of worse ones early.
    """

    def __init__(
        self, candidates: Sequence[Some], tightened: Callable[[Some], Some], *, simple_first: bool = False
    ) -> None:
        self._tightened = tightened
        self._heap = [(each.least_key, place, each) for place, each in enumerate(candidates)]
        heapify(self._heap)
        self._next = deque[Some]()  # of equal bounds
        if simple_first:
            self._put_simplest_first()

    def __iter__(self) -> Iterator[Some]:
        return self

    def __next__(self) -> Some:
        self._fetch()
        if not self._next:
            raise StopIteration
        return self._next.popleft()

    def left(self, most_key: float) -> int:
        """Number of candidates that have not come yet and whose bounds are at most a key."""
        return sum(each.least_key <= most_key for each in (*self._next, *(entry[2] for entry in self._heap)))

    def _fetch(self) -> None:
        """Make sure that the next candidates are known, if there are any: all that have the best bound."""
        while self._heap and not self._next:
            best_key, found = self._heap[0][0], list[Some]()
            while self._heap and self._heap[0][0] == best_key:
                _, place, candidate = heappop(self._heap)
                if candidate.exact:
                    found.append(candidate)
                else:
                    self._push(self._tightened(candidate), place)
            self._next.extend(sorted(found, key=_simplicity))

    def _push(self, candidate: Some, place: int) -> None:
        heappush(self._heap, (candidate.least_key, place, candidate))

    def _put_simplest_first(self) -> None:
        self._fetch()
        if not self._next:
            return
        first = self._next[0]
        most_key = first.least_key + NEAR * abs(first.least_key)
        near = [entry for entry in self._heap if entry[0] <= most_key and _simplicity(entry[2]) < _simplicity(first)]
        for _, place, candidate in sorted(near, key=lambda entry: _simplicity(entry[2])):
            exact = candidate if candidate.exact else self._tightened(candidate)
            self._heap = [entry for entry in self._heap if entry[2] is not candidate]
            heapify(self._heap)
            if exact.least_key <= most_key:
                self._next.appendleft(exact)
                return
            self._push(exact, place)


def _simplicity(candidate: Candidate) -> tuple[float, ...]:
    return candidate.simplicity(candidate.known)
