"""The collectives of a group: algorithm, cost on idle links, and steps on the links.

The collectives of one group run one after another, as on the communication stream that PyTorch gives each
process group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from simsys.collectives.base import Algorithm, CollectiveKind, Span
from simsys.collectives.choose import Choose, best
from simsys.collectives.collective_plan import CollectivePlan
from simsys.executors.group_links import GroupLinks
from simsys.executors.images import Images
from simsys.executors.link_loads import LinkLoads
from simsys.executors.meeting import Meetings, Part, Turn
from simsys.executors.meets import Meets
from simsys.executors.mirrors import AnyNetwork, in_lockstep, interfering, out_of_step, shifted
from simsys.executors.recurring_collective import RecurringCollective
from simsys.executors.uses import Use
from simsys.parallel.layout import Group
from simsys.platform.ecmp_collisions import Collision
from simsys.platform.environment import Environment
from simsys.platform.events import Callback
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.network import LockStep
from simsys.platform.traffic import Account


class Communicator:
    """The communicator shared by the members of a group.

    Args:
        group: The ranks, in the order of the algorithm.
        members: Number of simulated members (all, or one per role).
        network: The network.
        choose: Selects the algorithms and protocols to compare.
        env: The environment.
        images: Finds mirrors, which share links and count bytes.
        joined: True if consecutive equal steps may be joined (`Network.schedule`).
    """

    def __init__(
        self,
        group: Group,
        members: int,
        network: AnyNetwork,
        choose: Choose,
        env: Environment,
        images: Images | None = None,
        *,
        joined: bool = False,
    ) -> None:
        self.group = group
        self.members = members
        """Number of simulated members."""
        self.turns: deque[Turn] = deque()
        """The collectives that all members have joined and that have not ended, in order, if steps are simulated."""
        self.free_at_s = 0.0
        """When the last collective ends, if that is known."""
        self.meetings = Meetings(group, members, env)
        found = images or Images({rank: rank for rank in group.ranks})
        self.links = GroupLinks(group, network, found.shifts(group.ranks))
        self.link_loads = LinkLoads(network, self.links, self.plan, lambda: env._now)
        """The loads of its collectives on links, for evenly spread transfers."""
        self._span = _span([network.node_of(rank) for rank in group.ranks])
        self._network, self._choose, self._env, self._joined = network, choose, env, joined
        self._plans: dict[CollectiveKind, Sequence[CollectivePlan]] = {}
        self._chosen: dict[tuple[CollectiveKind, float], CollectivePlan] = {}
        self._interfering: dict[tuple[str, CollectiveKind], Sequence[int]] = {}
        self._seconds: dict[tuple[CollectiveKind, float, int], float] = {}
        self._recurring: dict[tuple[CollectiveKind, float], RecurringCollective] = {}
        self._parts: dict[tuple[CollectiveKind, float], Sequence[Part]] = {}
        self._uses: dict[tuple[str, CollectiveKind], Use] = {}
        self._accounts: dict[tuple[CollectiveKind, float], Account] = {}
        self._account_of: dict[tuple[str, CollectiveKind], Account] = {}

    def trivial(self, nbytes: float) -> bool:
        """True if there is nothing to communicate."""
        return self.group.size == 1 or nbytes == 0.0

    def plan(self, kind: CollectiveKind, nbytes: float) -> CollectivePlan:
        """How this collective is carried out."""
        key = kind, nbytes
        found = self._chosen.get(key)
        if found is None:
            plans = self._plans.get(kind)
            if plans is None:
                plans = self._plans[kind] = self._choose(
                    kind, self.group.size, lambda algorithm: self.links.paths(algorithm, kind), self._span
                )
            found = self._chosen[key] = best(plans, nbytes)
        return found

    def algorithm(self, kind: CollectiveKind, nbytes: float) -> Algorithm:
        """The algorithm that carries out this collective."""
        return self.plan(kind, nbytes).algorithm

    # ---- time on idle links

    def seconds(self, kind: CollectiveKind, nbytes: float, start_s: float = 0.0) -> float:
        """Duration of a collective from `start_s`, if only the group and its mirrors use their links.

        The algorithm is selected for the links at time 0, as NCCL does when it creates a communicator. Changes during
        the collective are ignored.
        """
        if self.trivial(nbytes):
            return 0.0
        key = kind, nbytes, self._network.epoch(start_s) if self._network.changes_s else 0
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = self._idle_seconds(kind, nbytes, start_s)
        return found

    def seconds_from(self, start_s: float) -> Callable[[CollectiveKind, float], float]:
        """`seconds` of collectives that begin while the links are as they are at `start_s`."""
        return partial(self.seconds, start_s=start_s) if self._network.changes_s else self.seconds

    def _idle_seconds(self, kind: CollectiveKind, nbytes: float, start_s: float) -> float:
        """The time of the steps; of mirrors that fall out of step, until the last one ends."""
        network, plan = self._network, self.plan(kind, nbytes)
        steps, classes = self.steps_alone(kind, nbytes), self.lockstep(kind, nbytes, start_s)
        if len(classes) > 1:
            return network.seconds_together([_mirrored(steps, each) for each in classes], start_s)
        total_s = 0.0
        for pairs, each_bytes, repeat, pause_s in _mirrored(steps, self._mirrors(plan)):
            total_s += repeat * (network.step_seconds(network.prepare(pairs), each_bytes, start_s) + pause_s)
        return total_s

    def _mirrors(self, plan: CollectivePlan) -> Sequence[int]:
        """The mirrors that matter for the time on idle links."""
        key = plan.algorithm.label, plan.kind
        found = self._interfering.get(key)
        if found is None:
            pairs = self.links.all_pairs(plan.algorithm, plan.kind)
            found = self._interfering[key] = interfering(self._network, pairs, self.links.shifts)
        return found

    def collisions(self) -> Iterator[tuple[CollectiveKind, Collision]]:
        """Where hashes slow the largest collective of each kind that the group has carried out."""
        largest: dict[CollectiveKind, float] = {}
        for kind, nbytes in self._chosen:
            largest[kind] = max(nbytes, largest.get(kind, 0.0))
        for kind, nbytes in largest.items():
            phases = self.links.phases(self.algorithm(kind, nbytes), kind)
            found = [self._network.collision(shifted(self.links.pairs(phase), self.links.shifts)) for phase in phases]
            worst = max((each for each in found if each is not None), key=lambda each: each.slower, default=None)
            if worst is not None:
                yield kind, worst

    # ---- steps on the links

    def steps_alone(self, kind: CollectiveKind, nbytes: float) -> list[LockStep]:
        """The steps of the group without its mirrors."""
        return self.links.steps(self.plan(kind, nbytes), nbytes)

    def recurring(self, kind: CollectiveKind, nbytes: float) -> RecurringCollective:
        """A collective of the group and all mirrors, made ready once and carried out as often as needed."""
        key = kind, nbytes
        found = self._recurring.get(key)
        if found is None:
            steps = self.steps_alone(kind, nbytes)
            schedule = self._schedule(steps, self.links.shifts)
            seconds = partial(self.seconds, kind, nbytes)
            found = self._recurring[key] = RecurringCollective(self.account(kind, nbytes), nbytes, schedule, seconds)
        return found

    def parts(self, kind: CollectiveKind, nbytes: float) -> Sequence[Part]:
        """A collective of the group and all mirrors, in parts that are in lockstep."""
        key = kind, nbytes
        found = self._parts.get(key)
        if found is None:
            classes = self.lockstep(kind, nbytes, self._env._now)
            if len(classes) == 1:
                found = [(self.links.shifts, self.recurring(kind, nbytes).start)]
            else:
                steps = self.steps_alone(kind, nbytes)
                found = [(each, self._schedule(steps, each).start) for each in classes]
                found[0] = classes[0], self._counting(kind, nbytes, found[0][1])
            self._parts[key] = found
        return found

    def _schedule(self, steps: Sequence[LockStep], shifts: Sequence[int]) -> LinkSchedule[Any]:
        """The steps of some mirrors on the links."""
        return self._network.schedule(_mirrored(steps, shifts), joined=self._joined)

    def _counting(
        self, kind: CollectiveKind, nbytes: float, start: Callable[[Callback], None]
    ) -> Callable[[Callback], None]:
        """Count the collective, mirrors included, whenever the group's own part starts."""

        def counted(done: Callback) -> None:
            self.count(kind, nbytes)
            start(done)

        return counted

    def lockstep(self, kind: CollectiveKind, nbytes: float, start_s: float) -> Sequence[Sequence[int]]:
        """The mirrors that end each step together, by their shifts; the first list has the group itself (0)."""
        plan, shifts = self.plan(kind, nbytes), self.links.shifts
        if self._mirrors(plan) is not shifts:
            return [shifts]
        return in_lockstep(self._network, self.steps_alone(kind, nbytes), shifts, start_s)

    def use(self, kind: CollectiveKind, nbytes: float, meets: Meets) -> Use:
        """The shares of links that such collectives need."""
        plan, network, now_s = self.plan(kind, nbytes), self._network, self._env._now
        key = plan.algorithm.label, kind
        found = self._uses.get(key)
        if found is None:
            alone = self._mirrors(plan) is not self.links.shifts
            splits = not alone and out_of_step(network, self.steps_alone(kind, nbytes), self.links.shifts, now_s)
            steps, name = self.links.transfers(plan.algorithm, kind), f"{self.group.axis} {kind}"
            waits = self.group.ranks[0] if self.members == 1 else None
            found = self._uses[key] = meets.use(
                name, steps, self.links.shifts, user=self.group.ranks, waits=waits, splits=splits
            )
        return found

    # ---- the communication graph

    def count(self, kind: CollectiveKind, nbytes: float, times: float = 1) -> None:
        """Count such collectives in the communication graph."""
        self.account(kind, nbytes).nbytes += times * nbytes

    def account(self, kind: CollectiveKind, nbytes: float) -> Account:
        """Where such collectives are counted."""
        key = kind, nbytes
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = self._account(self.algorithm(kind, nbytes), kind)
        return found

    def _account(self, algorithm: Algorithm, kind: CollectiveKind) -> Account:
        """One account of all sizes: they differ by a factor."""
        key = algorithm.label, kind
        found = self._account_of.get(key)
        if found is None:
            found = self._network.traffic.account(lambda: self.links.shares(algorithm, kind))
            self._account_of[key] = found
        return found

    def shares(self, kind: CollectiveKind, nbytes: float) -> Iterator[tuple[int, int, float]]:
        """Shares of the bytes of a collective of this size, by source and destination."""
        return self.links.shares(self.algorithm(kind, nbytes), kind)


def _mirrored(steps: Sequence[LockStep], shifts: Sequence[int]) -> list[LockStep]:
    """The steps of some mirrors together."""
    return [(shifted(pairs, shifts), nbytes, repeat, pause_s) for pairs, nbytes, repeat, pause_s in steps]


def _span(nodes: Sequence[int]) -> Span:
    """Arrangement of a group on nodes, from the node number of each rank."""
    each = nodes.count(nodes[0])
    count = len(set(nodes))
    even = all(len(set(nodes[i : i + each])) == 1 for i in range(0, len(nodes), each))
    return Span(count, each if even and count * each == len(nodes) else 1)
