"""Users of links without simulated steps: occupied links, and rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from operator import or_

import simpy
from simpy.events import Event

from simsys.platform.events import At, withdraw
from simsys.platform.traffic import Account
from simsys.sums import ordered_sum


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
        """Time of its bytes at the link's full rate, per byte of the whole."""
        self.busiest_s = max(self.busy_s.values(), default=0.0)
        """The most of them."""
        self.mask = sum(1 << link for link in shares)
        """The set of its links, a bit for each number."""
        self.account = account


class Occupant:
    """A user of links, with a rate that changes with other users."""

    __slots__ = ("duty_cycle", "footprints", "key", "loads", "mask", "pace", "rate")

    def __init__(self) -> None:
        self.footprints: list[Footprint] = []
        self.loads: list[float] = []
        """Bytes/s on idle links, by footprint."""
        self.mask = 0
        """The set of its links, as of `Footprint.mask`."""
        self.pace = 1.0
        """Its steps/s or bytes/s, whichever links share fairly, at a rate of 1."""
        self.duty_cycle = 1.0
        """The share of its time on idle links in which it communicates."""
        self.key: tuple[float, ...] = ()
        """Equal for all occupants with equal loads on the same links."""
        self.rate = 0.0

    def load(
        self, parts: Sequence[tuple[Footprint, float]], seconds: float, pace: float, duty_cycle: float = 1.0
    ) -> None:
        """Set its loads.

        Args:
            parts: Footprints, each with the bytes that go over it.
            seconds: Duration on idle links.
            pace: Steps/s or bytes/s on idle links.
            duty_cycle: The share of these seconds in which it communicates.
        """
        self.footprints = [footprint for footprint, _ in parts]
        self.loads = [nbytes / seconds if seconds else 0.0 for _, nbytes in parts]
        self.mask = reduce(or_, [footprint.mask for footprint in self.footprints], 0)
        self.pace, self.duty_cycle = pace, duty_cycle
        self.key = (*(footprint.number for footprint in self.footprints), *self.loads, pace, duty_cycle)

    def go_on(self, rate: float) -> None:
        """Set the rate from now on."""
        self.rate = rate

    @property
    def most_busy(self) -> float:
        """Upper bound of the utilisation that it causes on any link, alone at a rate of 1."""
        busy = [footprint.busiest_s * load for footprint, load in zip(self.footprints, self.loads, strict=True)]
        return ordered_sum(busy)


class Transfers(Occupant):
    """Concurrent transfers that end when all have arrived.

    Args:
        env: The environment.
        seconds: Duration on idle links.
        arrived: Called at their end.
    """

    __slots__ = ("_arrived", "_end", "_end_s", "_env", "_left_s", "_since_s")

    def __init__(self, env: simpy.Environment, seconds: float, arrived: Callable[[Transfers, Event], None]) -> None:
        super().__init__()
        self._env, self._left_s, self._arrived = env, seconds, arrived
        self._since_s = self._end_s = 0.0
        self._end: Event | None = None

    def go_on(self, rate: float) -> None:
        """Set the rate from now on, and with it the end."""
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
