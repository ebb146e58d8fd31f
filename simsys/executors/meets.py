"""Whether transfers that take the time of idle links would have met on their links.

At medium detail on idle links, collectives and messages are times and no transfers. That is exact as long as no two of
them are on one link at the same moment, beyond what it can carry for both. So it is noted when each one is under way,
and for how long those that share links are under way together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simsys.executors.mirrors import AnyNetwork, shifted
from simsys.platform.flow_set import Floats
from simsys.platform.network import Pairs

_IDLE = 1e-3
"""Of a link's bandwidth: transfers that need no more are not counted on it."""
FULL = 1.0 + 1e-9
"""Of a link's bandwidth, but for roundings."""

Needs = dict[int, float]
"""What transfers need of each link, by its number, as a share of its bandwidth."""


class _Window(NamedTuple):
    """When transfers are under way: for `busy_s` between two moments, as was said by a note of that number."""

    start_s: float
    end_s: float
    busy_s: float
    noted: int


@dataclass(eq=False)
class Use:
    """Transfers of some ranks and their mirrors, whatever their size.

    Args:
        name: What to call them.
        needs: By link, the share of its bandwidth that they need for their full speed; at most 1.
        shares: For what share of their time they use each link.
        user: What makes them: a group, or source and destination of messages.
        splits: Whether mirrors fall out of step with each other.
    """

    name: str
    needs: Needs
    shares: Mapping[int, float]
    user: Hashable = None
    splits: bool = False
    near: list[tuple[Use, float]] = field(default_factory=list)
    """Others that use the same links, and what shares of their speeds both lose there, added up."""
    windows: deque[_Window] = field(default_factory=deque)
    """When they are under way, as far as that is not over, in order."""

    def beside(self, start_s: float, end_s: float, busy_s: float, noted: int) -> float:
        """For how long they are under way together with others, apart from what the same note has said."""
        both_s = 0.0
        for window in reversed(self.windows):
            if window.end_s <= start_s:
                break
            if window.noted != noted:
                within_s = min(end_s, window.end_s) - max(start_s, window.start_s)
                both_s += max(0.0, min(within_s, busy_s, window.busy_s))
        return both_s

    def add(self, window: _Window, now_s: float) -> None:
        """They are under way again; what is over by now is forgotten."""
        windows = self.windows
        while windows and windows[0].end_s <= now_s:
            windows.popleft()
        last = windows[-1] if windows else None
        if last is not None and window.start_s <= last.end_s and window.noted != last.noted:
            windows[-1] = _Window(
                min(last.start_s, window.start_s),
                max(last.end_s, window.end_s),
                last.busy_s + window.busy_s,
                window.noted,
            )
        else:
            windows.append(window)


class Meets:
    """Notes when transfers are under way, and how long those that hinder each other are so together.

    Args:
        network: Carries them.
        now: Says what time it is.
    """

    def __init__(self, network: AnyNetwork, now: Callable[[], float]) -> None:
        self._network, self._now = network, now
        self._notes = 0
        self._users: dict[int, list[Use]] = {}
        self.busy_s = 0.0
        """Time that transfers have taken, added up."""
        self.together_s = 0.0
        """Time that transfers lose to each other while they are under way together, added up."""
        self.noted_s = 0.0
        """Until when transfers have been noted."""
        self.out_of_step: Use | None = None
        """Transfers of which mirrors would not go on in step."""
        self.pairs: dict[tuple[str, str], float] = {}
        """The same time by the names of the two."""
        self._lost_s: dict[tuple[Use, Use], float] = {}  # likewise

    def use(
        self,
        name: str,
        steps: Iterable[tuple[Pairs, float]],
        shifts: Sequence[int],
        *,
        user: Hashable = None,
        splits: bool = False,
    ) -> Use:
        """Transfers between some ranks, and of their mirrors.

        Args:
            name: What to call them.
            steps: Source and destination of those that start together, and what share of the bytes each sends.
            shifts: The mirrors, themselves (0) included.
            user: What makes the transfers.
            splits: Whether mirrors fall out of step.
        """
        needs, shares = self._needs_of_steps([(shifted(pairs, shifts), sent) for pairs, sent in steps])
        made = Use(name, needs, shares, user, splits)
        for other in dict.fromkeys(other for link in made.needs for other in self._users.get(link, ())):
            lost = self._lost(made, other)
            made.near.append((other, lost))
            other.near.append((made, lost))
        for link in made.needs:
            self._users.setdefault(link, []).append(made)
        return made

    def _needs_of_steps(self, steps: Iterable[tuple[Pairs, float]]) -> tuple[Needs, Mapping[int, float]]:
        """What steps that follow one another need of each link, at most, and for what share of the time."""
        most: Needs = {}
        used_s: dict[int, float] = {}
        total_s = 0.0
        for pairs, sent in steps:
            seconds = sent / self._network.idle_path(pairs)[1]
            total_s += seconds
            for link, need in self.needs(pairs).items():
                most[link] = max(need, most.get(link, 0.0))
                used_s[link] = used_s.get(link, 0.0) + seconds
        return most, {link: seconds / total_s if total_s else 1.0 for link, seconds in used_s.items()}

    def needs(self, pairs: Pairs) -> Needs:
        """What transfers of equal size need of each link, as a mean share of its bandwidth until the last is through.

        All of them start together, and those that are through wait for the slowest, as in the steps of a collective.
        """
        network, needs = self._network, dict[int, float]()
        _, slowest = network.idle_path(pairs)
        for src, dst in pairs:
            for link, share in (part for hop in network.way(src, dst) for part in hop):
                needs[link] = needs.get(link, 0.0) + slowest * share / network.bytes_per_s(link)
        return {link: min(1.0, need) for link, need in needs.items() if need > _IDLE or network.in_turn}

    def _lost(self, one: Use, other: Use) -> float:
        """What shares of their time two lose to each other on the link that is worst for them, added up.

        Where links serve in turn, one of them waits as long as the other goes on.
        """
        if self._network.in_turn:
            return 1.0
        few, many = sorted((one, other), key=lambda use: len(use.needs))
        return max(
            min(few.shares[link], many.shares[link]) * _lost_shares(need, many.needs[link])
            for link, need in few.needs.items()
            if link in many.needs
        )

    def note(self, use: Use, start_s: float, end_s: float, busy_s: float | None = None) -> None:
        """Transfers are under way from `start_s` to `end_s`, or for `busy_s` in between."""
        self.note_in_turn([(use, end_s - start_s if busy_s is None else busy_s)], start_s, end_s)

    def note_in_turn(self, uses: Iterable[tuple[Use, float]], start_s: float, end_s: float) -> None:
        """Transfers of one rank, of which none begins before another has ended: each use, and for how long (s)."""
        self._notes += 1
        for use, busy_s in uses:
            self._note(use, start_s, end_s, busy_s)

    def note_messages(self, messages: Iterable[tuple[Use, Sequence[float], float]]) -> None:
        """Messages of a program are under way: for each use, when they depart, and how long each takes (s)."""
        self._notes += 1
        noted = [(use, np.sort(np.array(departures_s)), seconds) for use, departures_s, seconds in messages]
        for place, (use, departures_s, seconds) in enumerate(noted):
            self._meet(use, use, float(np.maximum(0.0, seconds - np.diff(departures_s)).sum()))
            for other, other_departures_s, other_seconds in noted[:place]:
                lost = next((lost for near, lost in use.near if near is other), 0.0)
                if lost:
                    self._meet(use, other, lost * _both_s(departures_s, seconds, other_departures_s, other_seconds))
            start_s, end_s = float(departures_s[0]), float(departures_s[-1]) + seconds
            self._note(use, start_s, end_s, min(end_s - start_s, len(departures_s) * seconds))

    def _note(self, use: Use, start_s: float, end_s: float, busy_s: float) -> None:
        self.noted_s = max(self.noted_s, end_s)
        self.busy_s += busy_s
        if use.splits:
            self.out_of_step = use
        beside: list[Use] = []
        for other, lost in use.near:
            both_s = other.beside(start_s, end_s, busy_s, self._notes)
            if both_s and lost:
                self._meet(use, other, lost * both_s)
            elif both_s:
                beside.append(other)
        if len(beside) > 1 and _too_many([use, *beside]):
            self._meet(use, beside[0], busy_s)
        use.add(_Window(start_s, end_s, busy_s, self._notes), self._now())

    def _meet(self, one: Use, other: Use, lost_s: float) -> None:
        if lost_s > 0.0:
            self.together_s += lost_s
            names = one.name, other.name
            self.pairs[names] = self.pairs.get(names, 0.0) + lost_s
            self._lost_s[one, other] = self._lost_s.get((one, other), 0.0) + lost_s

    def hindering(self, slight_s: float) -> set[Hashable]:
        """Whose transfers lose time to others, but for those that all lose less than `slight_s` together."""
        found, left_s = set[Hashable](), slight_s
        for (one, other), lost_s in sorted(self._lost_s.items(), key=lambda item: item[1]):
            left_s -= lost_s
            if left_s < 0.0:
                found |= {one.user, other.user}
        return found

    def lost_without(self, users: Collection[Hashable]) -> float:
        """What transfers lose to each other (s) of which some belong to others than `users`."""
        return sum(
            lost_s for (one, other), lost_s in self._lost_s.items() if not (one.user in users and other.user in users)
        )

    def narrowest(self) -> str:
        """The link, for people, that is too narrow for those that lose most, or for mirrors; empty if none do."""
        worst = max(self._lost_s, key=lambda pair: self._lost_s[pair], default=None)
        one, other = worst or (self.out_of_step, self.out_of_step)
        if one is None or other is None:
            return ""
        both = [link for link in one.needs if link in other.needs]
        return self._network.link_name(max(both, key=lambda link: one.needs[link] + other.needs[link]))


def _lost_shares(one: float, other: float) -> float:
    """What shares of their speeds two lose that need such shares of a link, which is divided fairly; added up."""
    if one + other <= FULL:
        return 0.0
    return sum(1.0 - min(1.0, max(0.5, 1.0 - beside) / need) for need, beside in ((one, other), (other, one)))


def _too_many(uses: Sequence[Use]) -> bool:
    """Whether links that are wide enough for any two of some uses are too narrow for all."""
    needs: dict[int, float] = {}
    for use in uses:
        for link, need in use.needs.items():
            needs[link] = needs.get(link, 0.0) + need
    return any(need > FULL for need in needs.values())


def _both_s(starts_s: Floats, seconds: float, others_s: Floats, other_seconds: float) -> float:
    """How long intervals of two kinds overlap; each kind is given by its sorted starts and the length of each."""
    first = np.searchsorted(others_s, starts_s - other_seconds, side="right")
    last = np.searchsorted(others_s, starts_s + seconds, side="left")
    total_s = 0.0
    for place in np.nonzero(last > first)[0]:
        start_s = float(starts_s[place])
        for other_s in others_s[first[place] : last[place]].tolist():
            total_s += max(0.0, min(start_s + seconds, other_s + other_seconds) - max(start_s, other_s))
    return total_s
