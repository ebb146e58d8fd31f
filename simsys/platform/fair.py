"""Fair sharing of links, where uncontended collectives take one event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import simpy
from simpy.events import Event

from simsys.platform.claims import Claim
from simsys.platform.flow_set import FlowSet, Portion, Stream
from simsys.platform.fluid import SAME_MOMENT, FairLink, FluidNetwork
from simsys.platform.hop_units import Floats, Indexes
from simsys.platform.link_schedule import Step
from simsys.platform.link_spec import LinkSpec
from simsys.platform.network import LockStep, Pairs
from simsys.platform.pending_transfers import PendingTransfers
from simsys.platform.routing import Way
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.platform.uncontended import UncontendedSchedule


class _Stretch(NamedTuple):
    """A phase of a set of flows that is sent alone, per byte of each of its flows.

    Args:
        start: Seconds per byte from the beginning of the set.
        seconds: Its duration in seconds per byte.
        portions: Active portions, with the remaining share of each of their flows at the beginning.
    """

    start: float
    seconds: float
    portions: list[tuple[Portion, float]]

    def ending(self) -> Iterator[Portion]:
        """The portions whose last bytes are sent at its end."""
        for portion, left in self.portions:
            if left <= self.seconds * portion.bytes_per_s * (1.0 + SAME_MOMENT):
                yield portion


class _Together(NamedTuple):
    """Flows of several groups that start together.

    Args:
        group_of: The group of each flow.
        sent: Seconds per byte until its last byte is sent.
        latency_s: Its latency.
    """

    group_of: Indexes
    sent: Floats
    latency_s: Floats


class FairNetwork(FluidNetwork):
    """Links that are shared max-min fairly, and that schedules may claim while they are idle."""

    def __init__(
        self, env: simpy.Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        super().__init__(env, topology, timelines)
        self._claims: dict[frozenset[int], FairClaim] = {}
        self._claims_of: dict[int, list[FairClaim]] = {}  # by link
        self._joint: dict[FlowSet, FlowSet] = {}
        self._quiet: list[UncontendedSchedule[FlowSet]] = []
        self._alone: dict[tuple[int, int], list[_Stretch]] = {}
        self._flows: dict[tuple[object, int], _Together] = {}

    @property
    def links(self) -> Sequence[FairLink]:
        """All links; collectives in progress are brought up to this moment."""
        for claim in self._claims.values():
            if claim.run is not None:
                claim.give_way()
        return self.links_at_rest

    @property
    def links_at_rest(self) -> Sequence[FairLink]:
        """As `Network.links_at_rest`."""
        for schedule in self._quiet:
            schedule.settle()
        return super().links

    def _prepare(self, pairs: Pairs) -> FlowSet:
        ways: list[Way] = [way for way in (self.way(src, dst) for src, dst in pairs) if way]
        return self._counted(FlowSet(ways))

    def _counted(self, made: FlowSet) -> FlowSet:
        """A set of flows with bytes to record on links."""
        self._sets.append(made)
        return made

    def _make_known(self, whole: FlowSet) -> None:
        super()._make_known(whole)
        for claim in self._claims_on(whole.links):
            whole.claims.append(claim)
            claim.users.append(whole)

    def _claims_on(self, links: Iterable[int]) -> list[FairClaim]:
        """Claims on any of some links, in the order of their creation."""
        found = {claim.number: claim for link in links for claim in self._claims_of.get(link, ())}
        return [found[number] for number in sorted(found)]

    def schedule(self, steps: Iterable[LockStep], *, joined: bool = False) -> UncontendedSchedule[FlowSet]:
        """Prepare steps in lockstep; while their links are uncontended, they are not carried out one by one.

        Where links change, the pauses change with them, so steps stay as they are.
        """
        if not joined or self.changes_s:
            return UncontendedSchedule(self, self._steps(steps))
        return UncontendedSchedule(self, [self._as_one(step) for step in self._steps(steps)])

    def _as_one(self, step: Step[FlowSet]) -> Step[FlowSet]:
        """Join consecutive equal steps into one (`FlowSet.joint`), with equal time if uncontended."""
        if step.repeat == 1 or not step.transfers.count:
            return step
        joint = self._joint.get(step.transfers)
        if joint is None:
            joint = self._joint[step.transfers] = self._counted(FlowSet(step.transfers.ways, joint=True))
        nbytes = step.repeat * step.nbytes
        alone_s = step.repeat * (self.step_seconds(step.transfers, step.nbytes) + step.pause_s)
        return Step(joint, nbytes, 1, max(0.0, alone_s - self.step_seconds(joint, nbytes)))

    def claim(self, steps: Sequence[Step[FlowSet]]) -> FairClaim:
        """As `UncontendedNetwork.claim`."""
        links = frozenset(link for step in steps for link in step.transfers.links)
        found = self._claims.get(links)
        if found is None:
            timelines = [self._links[link].timeline for link in links]
            changes_s = [time_s for each in timelines if each is not None for time_s in each.changes_s]
            users = self._neighbours.using(sorted(links))
            found = FairClaim(self.env, changes_s, links, users, len(self._claims))
            found.near = self._claims_on(links)
            for other in found.near:
                other.near.append(found)
            for user in users:
                user.claims.append(found)
            self._claims[links] = found
            for link in links:
                self._claims_of.setdefault(link, []).append(found)
        return found

    def step_seconds(self, transfers: FlowSet, nbytes: float, time_s: float = 0.0) -> float:
        """Durations of steps, as `Network.step_seconds`."""
        latest_s = 0.0
        for stretch in self._sent_alone(transfers, self.epoch(time_s)):
            end_s = (stretch.start + stretch.seconds) * nbytes
            for portion in stretch.ending():
                latest_s = max(latest_s, end_s + self._latency_s(portion.flows, time_s))
        return latest_s

    def ends_together(self, groups: Sequence[Pairs], nbytes: float, time_s: float = 0.0) -> list[float]:
        """As `Network.ends_together`, without events: the transfers of all groups are one set of flows."""
        key = tuple(map(tuple, groups)), self.epoch(time_s)
        found = self._flows.get(key)
        if found is None:
            found = self._flows[key] = self._flows_together(groups, time_s)
        ends_s = np.zeros(len(groups))
        np.maximum.at(ends_s, found.group_of, found.sent * nbytes + found.latency_s)
        return list(map(float, ends_s))

    def _flows_together(self, groups: Sequence[Pairs], time_s: float) -> _Together:
        ways = [[way for way in (self.way(src, dst) for src, dst in pairs) if way] for pairs in groups]
        whole = FlowSet([way for own in ways for way in own])
        sent, latency_s = np.zeros(whole.count), self.steady(time_s).latency_s
        for stretch in self._stretches(whole, self.epoch(time_s)):
            for portion in stretch.ending():
                sent[portion.flows.members] = stretch.start + stretch.seconds
        return _Together(
            np.repeat(np.arange(len(ways)), [len(own) for own in ways]),
            sent,
            np.array([latency_s(way) for way in whole.ways], dtype=np.float64),
        )

    def _sent_alone(self, transfers: FlowSet, epoch: int) -> list[_Stretch]:
        """As `_stretches`, kept."""
        key = transfers.number, epoch
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = self._stretches(transfers, epoch)
        return found

    def _stretches(self, transfers: FlowSet, epoch: int) -> list[_Stretch]:
        """How a set of flows is sent that has its links for itself; the times are in proportion to the bytes."""
        found, start = list[_Stretch](), 0.0
        left = [(transfers, 1.0)] if transfers.count else []
        while left:
            solved = self._solve([flows for flows, _ in left], epoch)
            parts = [(part, share) for (_, share), own in zip(left, solved, strict=True) for part in own.parts]
            seconds = min(share / portion.bytes_per_s for portion, share in parts)
            found.append(_Stretch(start, seconds, parts))
            start += seconds
            left = [
                (portion.flows, share - seconds * portion.bytes_per_s)
                for portion, share in parts
                if share > seconds * portion.bytes_per_s * (1.0 + SAME_MOMENT)
            ]
        return found

    def resume(self, step: Step[FlowSet], started_s: float) -> Event:
        """As `UncontendedNetwork.resume`."""
        now, nbytes, epoch = self.env._now, step.nbytes, self.epoch(started_s)
        if self._next_change_s <= now:
            self._renew_links(now)
        batch = PendingTransfers(self.env, step.transfers.count, step.pause_s)
        self._begun(step.transfers, nbytes, epoch)
        for stretch in self._sent_alone(step.transfers, epoch):
            start_s, seconds = started_s + stretch.start * nbytes, stretch.seconds * nbytes
            over = start_s + seconds <= now * (1.0 + SAME_MOMENT)
            passed_s = seconds if over else now - start_s
            for portion, left in stretch.portions:
                self._sent(portion, passed_s, epoch)
                if not over:
                    left_bytes = max(0.0, left * nbytes - passed_s * portion.bytes_per_s)
                    stream = Stream(portion.flows, left_bytes, batch, now)
                    self._go_on(stream, portion)
                    self._join(stream)
                elif left <= stretch.seconds * portion.bytes_per_s * (1.0 + SAME_MOMENT):
                    end_s = start_s + seconds
                    batch.arrive(portion.flows.count, end_s + self._latency_s(portion.flows, end_s))
            if not over:
                break
        return batch.event

    def count(self, step: Step[FlowSet], times: int, time_s: float) -> None:
        """As `UncontendedNetwork.count`."""
        epoch = self.epoch(time_s)
        if times:
            self._begun(step.transfers, times * step.nbytes, epoch)
            for stretch in self._sent_alone(step.transfers, epoch):
                for portion, _ in stretch.portions:
                    self._sent(portion, times * step.nbytes * stretch.seconds, epoch)

    def _begun(self, flows: FlowSet, nbytes: float, epoch: int) -> None:
        """Record bytes per flow; the links are updated later, if they are unchanged."""
        if epoch == self._epoch:
            flows.started_bytes += nbytes
        else:
            self._carried(flows, nbytes, 0.0, epoch)

    def _sent(self, portion: Portion, seconds: float, epoch: int) -> None:
        """Record the time for which a portion has been sent; as `_begun`."""
        if epoch == self._epoch:
            portion.flows.sent_bytes += seconds * portion.bytes_per_s
            portion.elapsed_s += seconds
            self._portions[portion] = None
        else:
            self._carried(portion.flows, 0.0, seconds * portion.bytes_per_s, epoch)
            self._lost((portion,), (seconds,), epoch)

    def remember(self, schedule: UncontendedSchedule[FlowSet]) -> None:
        """As `UncontendedNetwork.remember`."""
        self._quiet.append(schedule)


class FairClaim(Claim):
    """A claim on links that flows share.

    Args:
        env: The environment.
        changes_s: When the links change.
        links: Their numbers.
        users: Sets of flows that use any of them.
        number: Its place in the order of creation.
    """

    __slots__ = ("links", "near", "number", "users")

    def __init__(
        self,
        env: simpy.Environment,
        changes_s: Sequence[float],
        links: frozenset[int],
        users: list[FlowSet],
        number: int,
    ) -> None:
        super().__init__(env, changes_s)
        self.links, self.users, self.number = links, users, number
        self.near: list[FairClaim] = []
        """Claims on any of the same links."""

    def _acquire(self) -> bool:
        if self._in_use():
            return False
        for other in self.near:
            if other.held:
                other.give_way()  # which may leave streams
        return not self._in_use()

    def _in_use(self) -> bool:
        """Whether anything is on its way over the links."""
        return any(user.streams for user in self.users)

    def _release(self) -> None:
        """Nothing else knows of it."""
