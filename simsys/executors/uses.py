"""Recurring transfers: their load on links, and their times."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simsys.platform.hop_units import Floats
from simsys.platform.network import Pairs

FULL = 1.0 + 1e-9
"""Of a link's bandwidth, but for roundings."""

Needs = dict[int, float]
"""The share of each link's bandwidth that transfers need, by number of the link."""


class Window(NamedTuple):
    """When transfers are under way: for `busy_s` between two moments, as was said by a note of that number.

    A share `exposed` of that is waited for.
    """

    start_s: float
    end_s: float
    busy_s: float
    exposed: float
    noted: int


@dataclass(eq=False)
class Use:
    """Transfers of some ranks and their mirrors, of any size.

    Args:
        name: Their name.
        needs: By link, the share of its bandwidth needed for full speed; at most 1.
        shares: Share of their time on each link.
        user: Ranks of the group, or source and destination of messages.
        waits: The simulated rank that waits for them; None for several.
        splits: True if mirrors get out of step.
        steps: Source, destination and byte share of simultaneous transfers, without mirrors.
        shifts: Distances of the mirrors' ranks from the simulated ones, including these (0).
    """

    name: str
    needs: Needs
    shares: Mapping[int, float]
    user: tuple[int, ...] = ()
    waits: int | None = None
    splits: bool = False
    steps: Sequence[tuple[Pairs, float]] = ()
    shifts: Sequence[int] = (0,)
    near: list[tuple[Use, float, float]] = field(default_factory=list)
    """Other users of these links, and the shares of time that both lose there."""
    exposed_s: float = 0.0
    """For how long they have been waited for, added up."""
    windows: deque[Window] = field(default_factory=deque)
    """Remaining times in flight, in order."""

    def overlap(self, start_s: float, end_s: float, busy_s: float, noted: int) -> tuple[float, float]:
        """Overlap with other uses, except within one record.

        Returns: The overlap, and the awaited part of it.
        """
        both_s = exposed_s = 0.0
        for window in reversed(self.windows):
            if window.end_s <= start_s:
                break
            if window.noted != noted:
                within_s = min(end_s, window.end_s) - max(start_s, window.start_s)
                each_s = max(0.0, min(within_s, busy_s, window.busy_s))
                both_s, exposed_s = both_s + each_s, exposed_s + each_s * window.exposed
        return both_s, exposed_s

    def lost_share(self, levels: Mapping[int, float]) -> float:
        """Largest share of their time lost to others.

        Args:
            levels: By link, the largest share of each of its users.
        """
        lost = [self.shares[link] * (1.0 - min(need, levels[link]) / need) for link, need in self.needs.items()]
        return max(lost, default=0.0)

    def mirrored(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Every mirror: shift of its ranks, and its user."""
        for shift in self.shifts:
            yield shift, tuple([rank + shift for rank in self.user])

    def add(self, window: Window, now_s: float) -> None:
        """Record another use; forget past ones."""
        windows = self.windows
        while windows and windows[0].end_s <= now_s:
            windows.popleft()
        last = windows[-1] if windows else None
        if last is not None and window.start_s <= last.end_s and window.noted != last.noted:
            busy_s = last.busy_s + window.busy_s
            windows[-1] = Window(
                min(last.start_s, window.start_s),
                max(last.end_s, window.end_s),
                busy_s,
                (last.exposed * last.busy_s + window.exposed * window.busy_s) / busy_s if busy_s else 0.0,
                window.noted,
            )
        else:
            windows.append(window)


class Delays:
    """Delay of each rank by slowed transfers that it waits for."""

    def __init__(self) -> None:
        self._of_all_s = 0.0
        self._of_one_s: dict[int, float] = {}

    @property
    def most_s(self) -> float:
        """The most of any rank."""
        return self._of_all_s + max(self._of_one_s.values(), default=0.0)

    def add(self, use: Use, seconds: float) -> None:
        """Record a delay of transfers."""
        if use.waits is None:
            self._of_all_s += seconds
        else:
            self._of_one_s[use.waits] = self._of_one_s.get(use.waits, 0.0) + seconds


def fair_level(needs: Sequence[float]) -> float:
    """The largest share of a link that a transfer gets, if transfers share it fairly."""
    left = 1.0
    for place, need in enumerate(sorted(needs)):
        level = left / (len(needs) - place)
        if need > level * FULL:
            return level
        left -= need
    return math.inf


def lost_speeds(one: float, other: float) -> tuple[float, float]:
    """The shares of their speeds that two transfers lose on a fairly shared link of which they need these shares."""
    if one + other <= FULL:
        return 0.0, 0.0
    return 1.0 - min(one, max(0.5, 1.0 - other)) / one, 1.0 - min(other, max(0.5, 1.0 - one)) / other


def too_many(uses: Sequence[Use]) -> bool:
    """Whether links that are wide enough for any two of some uses are too narrow for all."""
    needs: dict[int, float] = {}
    for use in uses:
        for link, need in use.needs.items():
            needs[link] = needs.get(link, 0.0) + need
    return any(need > FULL for need in needs.values())


class Sent(NamedTuple):
    """Messages of a program: departure times in order, duration of each (s), and awaited share."""

    departures_s: Floats
    seconds: float
    exposed: float

    @classmethod
    def of(cls, departures_s: Sequence[float], seconds: float, exposed_s: float) -> Sent:
        """From how long they are waited for in all."""
        total_s = len(departures_s) * seconds
        return cls(np.sort(np.array(departures_s)), seconds, min(1.0, exposed_s / total_s) if total_s else 0.0)


def together_s(some: Sent, others: Sent) -> float:
    """Overlap of messages of one kind with messages of another."""
    starts_s, seconds = some.departures_s, some.seconds
    first = np.searchsorted(others.departures_s, starts_s - others.seconds, side="right")
    last = np.searchsorted(others.departures_s, starts_s + seconds, side="left")
    total_s = 0.0
    for place in np.nonzero(last > first)[0]:
        start_s = float(starts_s[place])
        for other_s in others.departures_s[first[place] : last[place]].tolist():
            total_s += max(0.0, min(start_s + seconds, other_s + others.seconds) - max(start_s, other_s))
    return total_s
