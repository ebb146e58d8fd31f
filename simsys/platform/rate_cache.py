"""Combinations of concurrent sets of flows recur, so the rates of a combination are computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simsys.platform.flow_set import FlowSet, Portion, Stream

_MOST = 1 << 14  # with cached rates

Rates = list[Portion]
"""For each stream its slowest flows, with the others by rate."""


class RateCache:
    """The rates of combinations of streams.

    Args:
        solve: Computes the rates of sets of flows.
        forget: Called before the cache is cleared, when it is full.
    """

    def __init__(self, solve: Callable[[Sequence[FlowSet]], Rates], forget: Callable[[], None]) -> None:
        self._solve, self._forget = solve, forget
        self._known: dict[tuple[int, ...], Rates] = {}

    def rates(self, streams: list[Stream]) -> Rates:
        """The rates of streams; the result does not depend on their order."""
        key = tuple([stream.flows.number for stream in streams])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._forget()
            in_order = sorted(streams, key=_number)
            found = self._in_order(in_order)
            if in_order != streams:
                rates = dict(zip(in_order, found, strict=True))
                found = self._known[key] = [rates[stream] for stream in streams]
        return found

    def clear(self) -> None:
        """Clear the cache."""
        self._known.clear()

    def _in_order(self, streams: Sequence[Stream]) -> Rates:
        key = tuple([stream.flows.number for stream in streams])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._solve([stream.flows for stream in streams])
        return found


def _number(stream: Stream) -> tuple[int, float]:
    return stream.flows.number, stream.since_s
