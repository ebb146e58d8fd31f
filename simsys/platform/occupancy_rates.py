"""Rates of contending occupants.

All paces rise together until a link is full; its occupants keep their pace, and the others rise further:
max-min fairness (Bertsekas & Gallager 1992, "Data Networks", §6.5.2). On FIFO links, occupants also wait for each
other on links that are not full (`turn_waits.py`). On fair links, concurrent transfers slow each other down
(`bandwidth_losses.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from simsys.platform.bandwidth_losses import losses
from simsys.platform.occupant import Occupant
from simsys.platform.turn_waits import waiting

if TYPE_CHECKING:
    import numpy as np

_ROUNDINGS = 1e-12  # shares that differ by no more are the same
_KNOWN = 10_000  # combinations with cached rates: iterations repeat the same ones


class OccupancyRates:
    """Finds the rates of occupants that meet, and keeps them for the next time.

    Args:
        in_turn: Whether links serve transfers in turn, or share their bandwidth.
    """

    def __init__(self, *, in_turn: bool) -> None:
        self._in_turn = in_turn
        self._busy: dict[tuple[int, ...], np.ndarray] = {}
        self._known: dict[tuple[object, ...], list[float]] = {}

    def of(self, occupants: Sequence[Occupant]) -> Sequence[float]:
        """The rates of a connected group of occupants."""
        if len(occupants) == 1 and occupants[0].most_busy <= 1.0 + _ROUNDINGS:
            return (1.0,)
        key = tuple([occupant.key for occupant in occupants])
        found = self._known.get(key)
        if found is None:
            found = self._find_rates(occupants)
            if len(self._known) == _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _find_rates(self, occupants: Sequence[Occupant]) -> list[float]:
        import numpy as np

        loads = np.array([load for occupant in occupants for load in occupant.loads])
        first = list(accumulate([len(occupant.footprints) for occupant in occupants[:-1]], initial=0))
        wanted = np.add.reduceat(self._busy_seconds(occupants) * loads[:, None], first, axis=0)
        paces = np.array([occupant.pace for occupant in occupants])
        rates = max_min_rates(wanted, paces)
        if len(occupants) > 1:
            if self._in_turn:
                lost = waiting(wanted, paces, np.array([occupant.duty_cycle for occupant in occupants]))
            else:
                lost = losses(wanted, rates)
            rates = np.minimum(rates, 1.0 / (1.0 + lost))
        found: list[float] = rates.tolist()
        return found

    def _busy_seconds(self, occupants: Sequence[Occupant]) -> np.ndarray:
        """One row per footprint and one column per link; links with equal use appear once."""
        import numpy as np

        footprints = [footprint for occupant in occupants for footprint in occupant.footprints]
        key = tuple(footprint.number for footprint in footprints)
        found = self._busy.get(key)
        if found is None:
            links = {link for footprint in footprints for link in footprint.busy_s}
            uses = {tuple([footprint.busy_s.get(link, 0.0) for footprint in footprints]) for link in links}
            found = self._busy[key] = np.array(sorted(uses)).T
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
    if np.add.reduce(wanted).max(initial=0.0) <= 1.0:  # no link is full, as most often
        return rates
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
