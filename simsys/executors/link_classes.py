"""Classes of ranks that behave alike although their transfers share links with other users.

Ranks of one role have equal work, but other users may contend with some of them only. So ranks, exchanges and links
are distinguished by each other until nothing changes: ranks by their groups, groups by their ranks and by the links of
each of their transfers, links by the transfers on them. That is the coarsest equitable partition (colour refinement).
Max-min fair rates, and so all times, are equal within a class, since filling treats equal users equally.

A class is a 64-bit hash of all distinguishing properties; two collide once in 2⁶⁴ pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simsys.platform.hop_units import HopUnits, Indexes
from simsys.platform.routing import Way

Hashes = npt.NDArray[np.uint64]


class Exchange(NamedTuple):
    """A recurring exchange between ranks of a job.

    Args:
        job: The number of the job.
        kind: Equal for mirrors of each other.
        ranks: The ranks, in any order.
        steps: For simultaneous transfers, their paths on possibly shared links; empty for the time of idle links.
    """

    job: int
    kind: int
    ranks: tuple[int, ...]
    steps: Sequence[Sequence[Way]]


def rank_classes(
    roles: Mapping[int, Sequence[int]], exchanges: Sequence[Exchange], figures: Callable[[int], Hashable]
) -> dict[int, tuple[int, ...]]:
    """Distinguish ranks by work and contention.

    Args:
        roles: By job, for each of its ranks a number that is equal for ranks with equal work.
        exchanges: All exchanges, including mirrors.
        figures: Returns the distinguishing properties of a link.

    Returns: By job, for each rank a number that is equal for ranks with equal work at equal times.
    """
    graph = _Graph(roles, exchanges, figures)
    distinct = 0
    while (found := graph.distinct()) > distinct:
        distinct = found
        graph.refine()
    numbers = np.unique(graph.ranks, return_inverse=True)[1].tolist()
    return {job: tuple(numbers[first : first + len(roles[job])]) for job, first in graph.first.items()}


class _Graph:
    """Ranks, exchanges and links, each with its class; arguments as for `rank_classes`."""

    def __init__(
        self, roles: Mapping[int, Sequence[int]], exchanges: Sequence[Exchange], figures: Callable[[int], Hashable]
    ) -> None:
        starts = np.cumsum([0, *map(len, roles.values())]).tolist()
        self.first = dict(zip(roles, starts, strict=False))
        """By job, the place of its first rank."""
        self.ranks = _numbered([(job, role) for job, each in roles.items() for role in each])
        self._exchanges = _numbered([(each.job, each.kind, bool(each.steps)) for each in exchanges])
        members = [(place, self.first[each.job] + rank) for place, each in enumerate(exchanges) for rank in each.ranks]
        self._member_of, self._member = _columns(members, 2)
        flows = [
            (place, step, way)
            for place, each in enumerate(exchanges)
            for step, ways in enumerate(each.steps)
            for way in ways
        ]
        self._flow_of, steps = _columns([(place, step) for place, step, _ in flows], 2)
        self._flows = _salt(steps)
        self._part_of, links, shares = HopUnits([way for _, _, way in flows]).entries()
        self._part = _salt(np.unique(shares, return_inverse=True)[1])
        used, self._link = np.unique(links, return_inverse=True)
        self._links = _numbered([figures(link) for link in used.tolist()])

    def distinct(self) -> int:
        """Number of classes."""
        return sum(len(np.unique(each)) for each in (self.ranks, self._exchanges, self._flows, self._links))

    def refine(self) -> None:
        """Refine all classes by their neighbours."""
        links = _summed(self._links[self._link] + self._part, self._part_of, len(self._flows))
        self._flows = _mixed(self._flows + self._exchanges[self._flow_of] + _mixed(links))
        members = _summed(self.ranks[self._member], self._member_of, len(self._exchanges))
        flows = _summed(self._flows, self._flow_of, len(self._exchanges))
        self._exchanges = _mixed(self._exchanges + _mixed(members) + flows)
        parts = _summed(self._flows[self._part_of] + self._part, self._link, len(self._links))
        self._links = _mixed(self._links + parts)
        self.ranks = _mixed(self.ranks + _summed(self._exchanges[self._member_of], self._member, len(self.ranks)))


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> Indexes:
    return np.array(rows, dtype=np.intp).reshape(-1, count).T


def _numbered(values: Sequence[Hashable]) -> Hashes:
    """Equal values as equal numbers."""
    numbers: dict[Hashable, int] = {}
    return _salt(np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.intp))


def _salt(numbers: Indexes) -> Hashes:
    return _mixed(numbers.astype(np.uint64) + np.uint64(1))


def _summed(values: Hashes, place: Indexes, count: int) -> Hashes:
    """Sums by index, independent of order."""
    found = np.zeros(count, dtype=np.uint64)
    np.add.at(found, place, _mixed(values))
    return found


def _mixed(values: Hashes) -> Hashes:
    """Every bit of a number depends on every bit of the one before (SplitMix64, Steele et al. 2014, OOPSLA)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
