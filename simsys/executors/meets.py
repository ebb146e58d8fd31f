"""Detection of contention between transfers with the time of idle links.

At medium detail on idle links, collectives and messages are times instead of transfers. This is exact unless two of
them exceed the bandwidth of a link at the same time. So their times are recorded, and the overlap of those that share
links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simsys.executors.mirrors import AnyNetwork, shifted
from simsys.executors.uses import Delays, Needs, Sent, Use, Window, fair_level, lost_speeds, together_s, too_many
from simsys.platform.network import Pairs
from simsys.sums import ordered_sum

_IDLE = 1e-3
"""Of a link's bandwidth: transfers that need no more are not counted on it."""


class Noted(NamedTuple):
    """What has been noted of transfers.

    Args:
        busy_s: Total time of transfers.
        exposed_s: By use, for how long they have been waited for.
        waited_s: By pair of uses, the time that each has lost to the other.
    """

    busy_s: float
    exposed_s: Mapping[Use, float]
    waited_s: Mapping[tuple[Use, Use], tuple[float, float]]


class Meets:
    """Records the times of transfers, and the overlap of contending ones.

    Args:
        network: The network.
        now: Returns the simulated time.
    """

    def __init__(self, network: AnyNetwork, now: Callable[[], float]) -> None:
        self.network, self._now = network, now
        self.in_turn = network.in_turn
        """True for FIFO links. Then waits depend on exact times, so all losses count as waits of all ranks."""
        self._notes = 0
        self.uses: list[Use] = []
        """All kinds of transfers, whether they have started or not."""
        self.users: dict[int, list[Use]] = {}
        """Users by link."""
        self.busy_s = 0.0
        """Total time of transfers."""
        self._delays = Delays()
        self._first_s, self._last_s = math.inf, 0.0  # of this iteration
        self._left_out_s = 0.0  # likewise
        self._earlier_s = 0.0
        self.out_of_step: Use | None = None
        """Transfers with mirrors that get out of step."""
        self.pairs: dict[tuple[str, str], float] = {}
        """Lost time by the names of both users."""
        self._waited_s: dict[tuple[Use, Use], tuple[float, float]] = {}  # likewise

    @property
    def together_s(self) -> float:
        """Largest delay of a rank by contention between transfers that it waits for."""
        return self._delays.most_s

    @property
    def noted_s(self) -> float:
        """For how long transfers have been noted: in each iteration, from the first's begin to the last one's end."""
        return self._earlier_s + max(0.0, self._last_s - self._first_s) + self._left_out_s

    def noted(self) -> Noted:
        """All that is noted now."""
        return Noted(self.busy_s, {use: use.exposed_s for use in self.uses}, dict(self._waited_s))

    def repeat(self, before: Noted, count: int, seconds: float) -> None:
        """Count what has been noted since `before` another `count` times, each within `seconds`."""
        self._left_out_s += count * seconds
        self.busy_s += count * (self.busy_s - before.busy_s)
        for use in self.uses:
            use.exposed_s += count * (use.exposed_s - before.exposed_s.get(use, 0.0))
        for (one, other), waited_s in list(self._waited_s.items()):
            then_s = before.waited_s.get((one, other), (0.0, 0.0))
            self._meet(one, other, (count * (waited_s[0] - then_s[0]), count * (waited_s[1] - then_s[1])))

    def end_iteration(self) -> None:
        """An iteration ends: until the next one that is simulated, nothing is noted."""
        self._earlier_s = self.noted_s
        self._first_s, self._last_s, self._left_out_s = math.inf, 0.0, 0.0

    def use(
        self,
        name: str,
        steps: Iterable[tuple[Pairs, float]],
        shifts: Sequence[int],
        *,
        user: tuple[int, ...] = (),
        waits: int | None = None,
        splits: bool = False,
    ) -> Use:
        """Transfers between some ranks, and of their mirrors.

        Args:
            name: Their name.
            steps: Source, destination and byte share of simultaneous transfers.
            shifts: The mirrors, including the simulated group (0).
            user: Ranks of the group, or source and destination of messages.
            waits: The simulated rank that waits for them; None for several.
            splits: True if mirrors get out of step.
        """
        steps = list(steps)
        needs, shares = self.needs_of_steps([(shifted(pairs, shifts), sent) for pairs, sent in steps])
        made = Use(name, needs, shares, user, None if self.in_turn else waits, splits, steps, shifts)
        self.uses.append(made)
        for other in dict.fromkeys(other for link in made.needs for other in self.users.get(link, ())):
            mine, others = self._lost_shares(made, other)
            made.near.append((other, mine, others))
            other.near.append((made, others, mine))
        for link in made.needs:
            self.users.setdefault(link, []).append(made)
        return made

    def needs_of_steps(self, steps: Iterable[tuple[Pairs, float]]) -> tuple[Needs, Mapping[int, float]]:
        """Largest need of consecutive steps on each link, and share of time.

        Args:
            steps: Source, destination and byte share of simultaneous transfers.
        """
        most: Needs = {}
        used_s: dict[int, float] = {}
        total_s = 0.0
        for pairs, sent in steps:
            slowest, needs = self.network.idle_shares(pairs)
            seconds = sent / slowest
            total_s += seconds
            for link, need in self._counted(needs):
                most[link] = max(need, most.get(link, 0.0))
                used_s[link] = used_s.get(link, 0.0) + seconds
        return most, {link: seconds / total_s if total_s else 1.0 for link, seconds in used_s.items()}

    def needs(self, pairs: Pairs) -> Needs:
        """Need of transfers of equal size on each link, as a mean share of its bandwidth until the last one ends.

        All of them start together, and ended ones wait for the slowest, as in the steps of a collective.
        """
        return dict(self._counted(self.network.idle_shares(pairs)[1]))

    def _counted(self, needs: Mapping[int, float]) -> Iterator[tuple[int, float]]:
        """Non-negligible needs; all on FIFO links."""
        return ((link, need) for link, need in needs.items() if need > _IDLE or self.in_turn)

    def _lost_shares(self, one: Use, other: Use) -> tuple[float, float]:
        """Shares of time that two transfers lose to each other on their worst link.

        On FIFO links, one of them waits for the whole time of the other.
        """
        if self.in_turn:
            return 0.5, 0.5
        most = 0.0, 0.0
        for link in one.needs.keys() & other.needs.keys():
            lost = lost_speeds(one.needs[link], other.needs[link])
            share = min(one.shares[link], other.shares[link])
            most = max(most, (share * lost[0], share * lost[1]), key=ordered_sum)
        return most

    def note(
        self, use: Use, start_s: float, end_s: float, busy_s: float | None = None, exposed_s: float | None = None
    ) -> None:
        """Transfers are under way from `start_s` to `end_s`, or for `busy_s` in between.

        Args:
            use: The transfers.
            start_s: When they begin.
            end_s: When they end.
            busy_s: For how long they are under way; if not all the time.
            exposed_s: For how much of that they are waited for; if not always.
        """
        busy_s = end_s - start_s if busy_s is None else busy_s
        self.note_in_turn([(use, busy_s, busy_s if exposed_s is None else exposed_s)], start_s, end_s)

    def note_in_turn(self, uses: Iterable[tuple[Use, float, float]], start_s: float, end_s: float) -> None:
        """Transfers of one rank, of which none begins before another has ended.

        Args:
            uses: Each, for how long it is under way (s), and for how much of that it is waited for.
            start_s: When the first begins.
            end_s: When the last ends.
        """
        self._notes += 1
        for use, busy_s, exposed_s in uses:
            self._note(use, start_s, end_s, busy_s, exposed_s)

    def note_messages(self, messages: Iterable[tuple[Use, Sequence[float], float, float]]) -> None:
        """Record messages of a program.

        Args:
            messages: For each use, departure times, duration of each, and total waiting time (s).
        """
        self._notes += 1
        noted = [
            (Sent.of(departures_s, seconds, math.inf if self.in_turn else exposed_s), use)
            for use, departures_s, seconds, exposed_s in messages
        ]
        for place, (sent, use) in enumerate(noted):
            own_s = float(np.maximum(0.0, sent.seconds - np.diff(sent.departures_s)).sum())
            self._meet(use, use, (sent.exposed * own_s, 0.0))
            for others, other in noted[:place]:
                shares = next((each[1:] for each in use.near if each[0] is other), (0.0, 0.0))
                both_s = together_s(sent, others) if any(shares) else 0.0
                self._meet(use, other, (both_s * shares[0] * sent.exposed, both_s * shares[1] * others.exposed))
            start_s, end_s = float(sent.departures_s[0]), float(sent.departures_s[-1]) + sent.seconds
            busy_s = min(end_s - start_s, len(sent.departures_s) * sent.seconds)
            self._note(use, start_s, end_s, busy_s, sent.exposed * busy_s)

    def _note(self, use: Use, start_s: float, end_s: float, busy_s: float, exposed_s: float) -> None:
        self._first_s, self._last_s = min(self._first_s, start_s), max(self._last_s, end_s)
        self.busy_s += busy_s
        exposed = 1.0 if self.in_turn else min(1.0, exposed_s / busy_s) if busy_s else 0.0
        use.exposed_s += exposed * busy_s
        if use.splits:
            self.out_of_step = use
        overlapping: list[Use] = []
        for other, mine, others in use.near:
            both_s, other_exposed_s = other.overlap(start_s, end_s, busy_s, self._notes)
            if both_s and (mine or others):
                self._meet(use, other, (mine * exposed * both_s, others * other_exposed_s))
            elif both_s:
                overlapping.append(other)
        if len(overlapping) > 1 and too_many([use, *overlapping]):
            self._meet(use, overlapping[0], (busy_s, 0.0))
        use.add(Window(start_s, end_s, busy_s, exposed, self._notes), self._now())

    def _meet(self, one: Use, other: Use, waited_s: tuple[float, float]) -> None:
        if any(waited_s):
            self._delays.add(one, waited_s[0])
            self._delays.add(other, waited_s[1])
            names = one.name, other.name
            self.pairs[names] = self.pairs.get(names, 0.0) + ordered_sum(waited_s)
            before_s = self._waited_s.get((one, other), (0.0, 0.0))
            self._waited_s[one, other] = before_s[0] + waited_s[0], before_s[1] + waited_s[1]

    def hindering(self, slight_s: float) -> set[tuple[int, ...]]:
        """Users that lose time to others, except those that delay no rank by more than `slight_s` together."""
        found, left = set[tuple[int, ...]](), Delays()
        for (one, other), waited_s in sorted(self._waited_s.items(), key=lambda item: ordered_sum(item[1])):
            left.add(one, waited_s[0])
            left.add(other, waited_s[1])
            if left.most_s > slight_s:
                found |= {one.user, other.user}
        return found

    def able(self, slight_s: float = 0.0) -> set[tuple[int, ...]]:
        """Users that would lose time to concurrent transfers of the job, whether or not they were concurrent.

        Args:
            slight_s: Users that delay no rank by more together, however often they contend, are omitted.

        Returns:
            The users, mirrors by their own ranks.
        """
        levels = {link: fair_level([use.needs[link] for use in users]) for link, users in self.users.items()}
        found, left = {use for use in self.uses if use.splits}, Delays()
        lost_s = {use: use.exposed_s * (0.5 if self.in_turn else use.lost_share(levels)) for use in self.uses}
        for use in sorted(lost_s, key=lambda use: lost_s[use]):
            left.add(use, lost_s[use])
            if left.most_s > slight_s:
                narrow = [link for link, need in use.needs.items() if self.in_turn or need > levels[link]]
                found |= {use, *(other for link in narrow for other in self.users[link])}
        return {user for use in found for _, user in use.mirrored()}

    def narrowest(self) -> str:
        """The link with the largest loss, or the bottleneck of mirrors, for people; empty if there is none."""
        worst = max(self._waited_s, key=lambda pair: ordered_sum(self._waited_s[pair]), default=None)
        one, other = worst or (self.out_of_step, self.out_of_step)
        if one is None or other is None:
            return ""
        both = [link for link in one.needs if link in other.needs]
        return self.network.link_name(max(both, key=lambda link: one.needs[link] + other.needs[link]))
