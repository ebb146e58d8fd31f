"""Even link loads of the collectives of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simsys.collectives.base import CollectiveKind
from simsys.collectives.collective_plan import CollectivePlan
from simsys.executors.group_links import GroupLinks
from simsys.executors.mirrors import AnyNetwork
from simsys.platform.occupant import Footprint
from simsys.sums import ordered_sum


class LinkLoads:
    """The loads of links by the collectives of a group and its mirrors.

    Args:
        network: The network.
        links: Links of the group.
        plan: The plan of a collective by kind and size.
        now: The simulated time in seconds.
    """

    def __init__(
        self,
        network: AnyNetwork,
        links: GroupLinks,
        plan: Callable[[CollectiveKind, float], CollectivePlan],
        now: Callable[[], float],
    ) -> None:
        self._network, self._links, self._plan, self._now = network, links, plan, now
        self._footprints: dict[tuple[CollectivePlan, int], Footprint] = {}
        self._steps: dict[CollectivePlan, tuple[int, float]] = {}

    def steps(self, kind: CollectiveKind, nbytes: float) -> tuple[int, float]:
        """Number of steps of a collective, and the sum of the bytes of one transfer in each."""
        plan = self._plan(kind, nbytes)
        found = self._steps.get(plan)
        if found is None:
            phases = self._links.phases(plan.algorithm, kind)
            share = ordered_sum(phase.repeat * phase.fraction for phase in phases)
            found = self._steps[plan] = sum(phase.repeat for phase in phases), share
        return found[0], nbytes * found[1]

    def footprints(self) -> Iterable[Footprint]:
        """Loads of all collectives so far."""
        return self._footprints.values()

    def footprint(self, kind: CollectiveKind, nbytes: float) -> Footprint:
        """The links that are loaded by a collective that starts now, mirrors of the group included."""
        plan = self._plan(kind, nbytes)
        key = plan, self._network.epoch(self._now())
        found = self._footprints.get(key)
        if found is None:
            loads = self._links.loads(plan)
            found = self._footprints[key] = self._network.occupancy.footprint(loads, self._network.traffic)
        return found

    def of(
        self, collectives: Iterable[tuple[CollectiveKind, float, int]]
    ) -> tuple[list[tuple[Footprint, float]], int, float]:
        """The loads of consecutive collectives, each with a number of repetitions.

        Returns:
            Footprints with their bytes, the number of steps, and the sum of the bytes of one transfer in each step.
        """
        loads, steps, sent_bytes = dict[Footprint, float](), 0, 0.0
        for kind, nbytes, repeat in collectives:
            footprint = self.footprint(kind, nbytes)
            loads[footprint] = loads.get(footprint, 0.0) + nbytes * repeat
            each, each_bytes = self.steps(kind, nbytes)
            steps, sent_bytes = steps + repeat * each, sent_bytes + repeat * each_bytes
        return list(loads.items()), steps, sent_bytes
