"""How collectives and messages slow each other where their steps are not simulated: the links that each one occupies.

Whoever is under way goes at a rate, as a share of its speed on idle links. It keeps each of its links busy for some
share of its time, and no link can be busy for more than all of the time; latencies and software leave links to others
meanwhile. Of those that meet on a link, all go faster together until some link is full, those on it keep their pace,
and the others go on: max-min fairness (Bertsekas & Gallager 1992, "Data Networks", §6.5.2). What is fair depends on
how links are shared. Where they serve in turn, everybody gets one transfer through before anybody gets the next, so
all take as many steps per second, however large these are, and wait for each other also where links are not full
(`turn_waits.py`). Where they share bandwidth, all get as many bytes/s, and transfers that meet are slower for as
long as they do (`bandwidth_losses.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import simpy
from simpy.events import Event

from simsys.platform.bandwidth_losses import losses
from simsys.platform.events import At, Callback, withdraw
from simsys.platform.routing import Way
from simsys.platform.traffic import Account, Traffic
from simsys.platform.turn_waits import waiting
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    import numpy as np

_ROUNDINGS = 1e-12  # shares that differ by no more are the same
_KNOWN = 10_000  # meetings whose rates are kept: iterations bring the same ones again and again


class Footprint:
    """The links that transfers occupy, and for how long. Make it once for all transfers over the same routes.

    Args:
        shares: By number of link, the bytes that it carries, per byte of the whole.
        bytes_per_s: The rate of a link by its number.
        account: Counts the bytes of the whole.
    """

    _numbers = count()

    def __init__(self, shares: Mapping[int, float], bytes_per_s: Callable[[int], float], account: Account) -> None:
        self.number = next(self._numbers)
        self.shares = shares
        self.busy_s = {link: share / bytes_per_s(link) for link, share in shares.items()}
        """How long its bytes take at the link's full rate, per byte of the whole."""
        self.busiest_s = max(self.busy_s.values(), default=0.0)
        """The most of them."""
        self.account = account


class Occupant:
    """Who occupies links, at a rate that changes as others come and go."""

    __slots__ = ("burst", "footprints", "key", "loads", "pace", "rate")

    def __init__(self) -> None:
        self.footprints: list[Footprint] = []
        self.loads: list[float] = []
        """Bytes/s on idle links, by footprint."""
        self.pace = 1.0
        """What of the measure of fairness, steps/s or bytes/s, it has at a rate of 1."""
        self.burst = 1.0
        """The share of its time on idle links in which it communicates."""
        self.key: tuple[float, ...] = ()
        """The same for others that use the same links as much."""
        self.rate = 0.0

    def load(self, parts: Sequence[tuple[Footprint, float]], seconds: float, pace: float, burst: float = 1.0) -> None:
        """Say what it does.

        Args:
            parts: Footprints, each with the bytes that go over it.
            seconds: Within how long on idle links.
            pace: See above.
            burst: Likewise.
        """
        self.footprints = [footprint for footprint, _ in parts]
        self.loads = [nbytes / seconds if seconds else 0.0 for _, nbytes in parts]
        self.pace, self.burst = pace, burst
        self.key = (*(footprint.number for footprint in self.footprints), *self.loads, pace, burst)

    def go_on(self, rate: float) -> None:
        """Go on at another rate from now on."""
        self.rate = rate

    @property
    def most_busy(self) -> float:
        """A share of time for which no link is busy on its account, at a rate of 1, if nobody else is there."""
        busy = [footprint.busiest_s * load for footprint, load in zip(self.footprints, self.loads, strict=True)]
        return ordered_sum(busy)


class Transfers(Occupant):
    """Transfers that are under way together and end when they have arrived.

    Args:
        env: The environment.
        seconds: How long they take on idle links.
        arrived: Called at their end.
    """

    __slots__ = ("_arrived", "_end", "_end_s", "_env", "_left_s", "_since_s")

    def __init__(self, env: simpy.Environment, seconds: float, arrived: Callable[[Transfers, Event], None]) -> None:
        super().__init__()
        self._env, self._left_s, self._arrived = env, seconds, arrived
        self._since_s = self._end_s = 0.0
        self._end: Event | None = None

    def go_on(self, rate: float) -> None:
        """End sooner or later than was thought."""
        now = self._env._now
        self._left_s = max(0.0, self._left_s - (now - self._since_s) * self.rate)
        self.rate, self._since_s = rate, now
        end_s = now + self._left_s / rate
        if self._end is not None and end_s < self._end_s:
            withdraw(self._env, self._end)  # else it is passed over on the way
        self._end, self._end_s = At(self._env, end_s, self._ends), end_s

    def _ends(self, event: Event) -> None:
        if event is self._end:  # else its rate has changed since
            self._arrived(self, event)


class Occupancy:
    """Who is under way on the links of a network, and how fast.

    Args:
        env: The environment.
        bytes_per_s: The rate of a link, by its number, at present.
        in_turn: Whether links serve transfers in turn, or share their bandwidth.
    """

    def __init__(self, env: simpy.Environment, bytes_per_s: Callable[[int], float], *, in_turn: bool) -> None:
        self._env, self._bytes_per_s, self._in_turn = env, bytes_per_s, in_turn
        self._footprints: list[Footprint] = []
        self._under_way: dict[Occupant, None] = {}
        self._meetings: dict[tuple[int, int], bool] = {}
        self._busy: dict[tuple[int, ...], np.ndarray] = {}
        self._known_rates: dict[tuple[object, ...], list[float]] = {}
        self._since_s: dict[Occupant, float] = {}
        self._present_s = self._lost_s = 0.0

    def lost_share(self) -> float:
        """The share of the time of all who have been under way that they have lost to each other so far."""
        return self._lost_s / self._present_s if self._present_s else 0.0

    def footprint(self, transfers: Iterable[tuple[Way, float]], traffic: Traffic) -> Footprint:
        """The footprint of transfers that begin now, each with its way and its share of the bytes.

        Their bytes are counted with those of `traffic`, whose communication graph they do not change.
        """
        shares: dict[int, float] = {}
        for way, share in transfers:
            for link, part in (each for hop in way for each in hop):
                shares[link] = shares.get(link, 0.0) + share * part
        footprint = Footprint(shares, self._bytes_per_s, traffic.account(lambda: ()))
        self._footprints.append(footprint)
        return footprint

    def carried(self) -> dict[int, tuple[float, float]]:
        """What each link has carried so far or is carrying, by number: bytes, and seconds at its full rate."""
        carried: dict[int, tuple[float, float]] = {}
        for footprint in self._footprints:
            for link, share in footprint.shares.items():
                nbytes, busy_s = carried.get(link, (0.0, 0.0))
                whole = footprint.account.nbytes
                carried[link] = nbytes + share * whole, busy_s + footprint.busy_s[link] * whole
        return carried

    def most_shared(self) -> int | None:
        """The link, by number, that has been busiest of those that several footprints have used, if there are any."""
        users: dict[int, int] = {}
        for footprint in self._footprints:
            if footprint.account.nbytes:
                for link in footprint.shares:
                    users[link] = users.get(link, 0) + 1
        carried = self.carried()
        return max((link for link, many in users.items() if many > 1), key=lambda link: carried[link][1], default=None)

    def start(
        self,
        parts: Sequence[tuple[Footprint, float]],
        seconds: float,
        done: Callback,
        *,
        steps: float = 1.0,
        nbytes: float = 0.0,
        burst: float = 1.0,
    ) -> None:
        """Begin transfers now.

        Args:
            parts: Their links: footprints, each with the bytes that it has its shares of.
            seconds: How long they take on idle links.
            done: Called at their end.
            steps: How many of them follow one another.
            nbytes: Bytes of those that follow one another.
            burst: In what share of the time they take place.
        """

        def arrived(transfers: Transfers, event: Event) -> None:
            self.leave(transfers)
            done(event)

        transfers = Transfers(self._env, seconds, arrived)
        transfers.load(parts, seconds, self.pace(steps, nbytes, seconds), burst)
        for footprint, part_bytes in parts:
            footprint.account.nbytes += part_bytes
        self.join(transfers)

    def pace(self, steps: float, nbytes: float, seconds: float) -> float:
        """That of so many steps with so many bytes, within so many seconds on idle links."""
        return (steps if self._in_turn else nbytes) / seconds if seconds else 1.0

    def join(self, occupant: Occupant) -> None:
        """Somebody begins."""
        others = self._met_by(occupant)
        self._under_way[occupant] = None
        self._since_s[occupant] = self._env._now
        self._share([occupant, *others])

    def leave(self, occupant: Occupant) -> None:
        """Somebody is done."""
        others = self._met_by(occupant)
        self._count(occupant)
        del self._under_way[occupant], self._since_s[occupant]
        self._share_apart(others)

    def change(
        self, occupant: Occupant, parts: Sequence[tuple[Footprint, float]], seconds: float, pace: float, burst: float
    ) -> None:
        """Somebody does something else from now on; see `Occupant.load`."""
        before = self._met_by(occupant)
        occupant.load(parts, seconds, pace, burst)
        self._share_apart(dict.fromkeys([occupant, *before, *self._met_by(occupant)]))

    def _met_by(self, occupant: Occupant) -> list[Occupant]:
        """Those under way that it shares links with, directly or through others."""
        found: dict[Occupant, None] = {occupant: None}
        pending = [occupant]
        while pending:
            one = pending.pop()
            for other in self._under_way:
                if other not in found and self._meet(one, other):
                    found[other] = None
                    pending.append(other)
        return [other for other in found if other is not occupant]

    def _meet(self, one: Occupant, other: Occupant) -> bool:
        return any(self._overlap(mine, theirs) for mine in one.footprints for theirs in other.footprints)

    def _overlap(self, one: Footprint, other: Footprint) -> bool:
        key = (one.number, other.number) if one.number < other.number else (other.number, one.number)
        found = self._meetings.get(key)
        if found is None:
            found = self._meetings[key] = not one.busy_s.keys().isdisjoint(other.busy_s)
        return found

    def _share(self, occupants: Sequence[Occupant]) -> None:
        """Find the rates of all that meet, and when each of them ends if nothing changes."""
        for occupant, rate in zip(occupants, self._rates(occupants), strict=True):
            if rate != occupant.rate:
                self._count(occupant)
                occupant.go_on(rate)

    def _count(self, occupant: Occupant) -> None:
        """Add up what an occupant has lost at its rate, which ends now."""
        span_s = self._env._now - self._since_s[occupant]
        self._since_s[occupant] = self._env._now
        self._present_s += span_s
        self._lost_s += span_s * (1.0 - occupant.rate)

    def _share_apart(self, occupants: Iterable[Occupant]) -> None:
        """The same for some who may not all meet."""
        left = list(occupants)
        while left:
            together = [left[0], *self._met_by(left[0])]
            self._share(together)
            left = [occupant for occupant in left if occupant not in together]

    def _rates(self, occupants: Sequence[Occupant]) -> Sequence[float]:
        if len(occupants) == 1 and occupants[0].most_busy <= 1.0 + _ROUNDINGS:
            return (1.0,)
        key = tuple([occupant.key for occupant in occupants])
        found = self._known_rates.get(key)
        if found is None:
            found = self._find_rates(occupants)
            if len(self._known_rates) == _KNOWN:
                self._known_rates.clear()
            self._known_rates[key] = found
        return found

    def _find_rates(self, occupants: Sequence[Occupant]) -> list[float]:
        import numpy as np

        loads = np.array([load for occupant in occupants for load in occupant.loads])
        first = np.cumsum([0, *[len(occupant.footprints) for occupant in occupants[:-1]]])
        wanted = np.add.reduceat(self._busy_seconds(occupants) * loads[:, None], first, axis=0)
        paces = np.array([occupant.pace for occupant in occupants])
        rates = max_min_rates(wanted, paces)
        if len(occupants) > 1:
            bursts = np.array([occupant.burst for occupant in occupants])
            lost = waiting(wanted, paces, bursts) if self._in_turn else losses(wanted, rates)
            rates = np.minimum(rates, 1.0 / (1.0 + lost))
        return [float(rate) for rate in rates]

    def _busy_seconds(self, occupants: Sequence[Occupant]) -> np.ndarray:
        """One row per footprint and one column per link, those of links that are used alike only once."""
        import numpy as np

        footprints = [footprint for occupant in occupants for footprint in occupant.footprints]
        key = tuple(footprint.number for footprint in footprints)
        found = self._busy.get(key)
        if found is None:
            links = sorted({link for footprint in footprints for link in footprint.busy_s})
            rows = [[footprint.busy_s.get(link, 0.0) for link in links] for footprint in footprints]
            found = self._busy[key] = np.unique(np.array(rows), axis=1)
        return found


def max_min_rates(wanted: np.ndarray, paces: np.ndarray) -> np.ndarray:
    """Rates, at most 1, of occupants whose links are full when their shares of time add up to 1.

    Args:
        wanted: For every occupant a row and for every link a column: the share of time that it keeps it busy at a rate
            of 1.
        paces: The pace of each occupant at a rate of 1; paces rise together.

    Returns:
        The rate of each occupant.
    """
    import numpy as np

    rates, rising = np.ones(len(paces)), np.ones(len(paces), dtype=bool)
    while rising.any():
        left = 1.0 - rates[~rising] @ wanted[~rising]
        wants = (wanted[rising] / paces[rising, None]).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(wants > 0.0, left / wants, np.inf)
        level, fastest = float(limits.min(initial=np.inf)), float(paces[rising].min())
        if level >= fastest * (1.0 - _ROUNDINGS):
            rising &= paces > fastest
            continue
        full = limits <= level * (1.0 + _ROUNDINGS)
        stopped = rising & (wanted[:, full] > 0.0).any(axis=1)
        rates[stopped] = level / paces[stopped]
        rising &= ~stopped
    return rates
