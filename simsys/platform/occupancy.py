"""Contention between collectives and messages without simulated steps: each occupies its links.

An occupant has a rate: its speed as a share of its speed on idle links. It keeps each of its links busy for a share of
the time, and the shares of all occupants of a link add up to at most 1; during latencies and software overheads a link
serves other occupants. Rates are max-min fair (`occupancy_rates.py`), in a unit that depends on how links are shared.
FIFO links serve one transfer of each occupant in turn, so all have equal steps per second of any size. Fair links give
all equal bytes/s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import simpy
from simpy.events import Event

from simsys.platform.events import Callback
from simsys.platform.occupancy_rates import OccupancyRates
from simsys.platform.occupant import Footprint, Occupant, Transfers
from simsys.platform.routing import Way
from simsys.platform.traffic import Traffic


class Occupancy:
    """The occupants of the links of a network, and their rates.

    Args:
        env: The environment.
        bytes_per_s: The rate of a link, by its number, at present.
        in_turn: Whether links serve transfers in turn, or share their bandwidth.
    """

    def __init__(self, env: simpy.Environment, bytes_per_s: Callable[[int], float], *, in_turn: bool) -> None:
        self._env, self._bytes_per_s, self._in_turn = env, bytes_per_s, in_turn
        self._footprints: list[Footprint] = []
        self._under_way: dict[Occupant, None] = {}
        self._rates = OccupancyRates(in_turn=in_turn)
        self._since_s: dict[Occupant, float] = {}
        self._present_s = self._lost_s = 0.0

    def lost_share(self) -> float:
        """The share of time lost to contention so far, over all occupants."""
        return self._lost_s / self._present_s if self._present_s else 0.0

    def footprint(self, transfers: Iterable[tuple[Way, float]], traffic: Traffic) -> Footprint:
        """The footprint of transfers that begin now, each with its way and its share of the bytes.

        Their bytes are counted with `traffic`, without changing its communication graph.
        """
        shares: dict[int, float] = {}
        for way, share in transfers:
            for link, part in (each for hop in way for each in hop):
                shares[link] = shares.get(link, 0.0) + share * part
        footprint = Footprint(shares, self._bytes_per_s, traffic.account(lambda: ()))
        self._footprints.append(footprint)
        return footprint

    def carried(self) -> dict[int, tuple[float, float]]:
        """Past and current traffic of each link, by number: bytes, and seconds at its full rate."""
        carried: dict[int, tuple[float, float]] = {}
        for footprint in self._footprints:
            for link, share in footprint.shares.items():
                nbytes, busy_s = carried.get(link, (0.0, 0.0))
                whole = footprint.account.nbytes
                carried[link] = nbytes + share * whole, busy_s + footprint.busy_s[link] * whole
        return carried

    def most_shared(self) -> int | None:
        """The number of the busiest link shared by several footprints, or None."""
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
        duty_cycle: float = 1.0,
    ) -> None:
        """Begin transfers now.

        Args:
            parts: Footprints of their links, each with its bytes.
            seconds: Duration on idle links.
            done: Called at their end.
            steps: Number of consecutive ones.
            nbytes: Bytes of consecutive ones.
            duty_cycle: The share of these seconds with transfers.
        """

        def arrived(transfers: Transfers, event: Event) -> None:
            self.leave(transfers)
            done(event)

        transfers = Transfers(self._env, seconds, arrived)
        transfers.load(parts, seconds, self.pace(steps, nbytes, seconds), duty_cycle)
        for footprint, part_bytes in parts:
            footprint.account.nbytes += part_bytes
        self.join(transfers)

    def pace(self, steps: float, nbytes: float, seconds: float) -> float:
        """The pace of transfers with a duration on idle links, in steps/s or bytes/s by the contention model."""
        return (steps if self._in_turn else nbytes) / seconds if seconds else 1.0

    def join(self, occupant: Occupant) -> None:
        """Add an occupant; contending ones may slow down."""
        others = self._met_by(occupant)
        self._under_way[occupant] = None
        self._since_s[occupant] = self._env._now
        self._share([occupant, *others])

    def leave(self, occupant: Occupant) -> None:
        """Remove an occupant; contending ones may speed up."""
        others = self._met_by(occupant)
        self._count(occupant)
        del self._under_way[occupant], self._since_s[occupant]
        self._share_apart(others)

    def change(
        self,
        occupant: Occupant,
        parts: Sequence[tuple[Footprint, float]],
        seconds: float,
        pace: float,
        duty_cycle: float,
    ) -> None:
        """An occupant changes its loads from now on; see `Occupant.load`."""
        before = self._met_by(occupant)
        occupant.load(parts, seconds, pace, duty_cycle)
        self._share_apart(dict.fromkeys([occupant, *before, *self._met_by(occupant)]))

    def _met_by(self, occupant: Occupant) -> list[Occupant]:
        """Active occupants in its connected component."""
        found: dict[Occupant, None] = {occupant: None}
        pending = [occupant]
        while pending:
            mask = pending.pop().mask
            for other in self._under_way:
                if other.mask & mask and other not in found:
                    found[other] = None
                    pending.append(other)
        return [other for other in found if other is not occupant]

    def _share(self, occupants: Sequence[Occupant]) -> None:
        """Find the rates of all that meet; each ends accordingly if nothing changes."""
        for occupant, rate in zip(occupants, self._rates.of(occupants), strict=True):
            if rate != occupant.rate:
                self._count(occupant)
                occupant.go_on(rate)

    def _count(self, occupant: Occupant) -> None:
        """Account for the time lost by an occupant at its current rate."""
        span_s = self._env._now - self._since_s[occupant]
        self._since_s[occupant] = self._env._now
        self._present_s += span_s
        self._lost_s += span_s * (1.0 - occupant.rate)

    def _share_apart(self, occupants: Iterable[Occupant]) -> None:
        """Recompute rates for each connected group of occupants."""
        left = list(occupants)
        while left:
            together = [left[0], *self._met_by(left[0])]
            self._share(together)
            left = [occupant for occupant in left if occupant not in together]
