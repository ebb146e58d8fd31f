"""First come, first served on every link: a calendar per link, each reserved when the transfer reaches it.

Cut-through: a transfer's head moves on to the next link one latency after it entered the previous one; its tail leaves
a link when the link has serialised it, but not before its arrival. So the time of an uncontended transfer is the sum
of the latencies plus the bytes over the slowest link. Each link of the route is reserved when the head reaches it,
never ahead of time, and only for its own serialisation time. Otherwise eight NICs could not share one fast uplink.

Whole messages are served in turn, as in ASTRA-sim.

Real switches interleave packets, so a message behind one that is limited elsewhere is slower here than with fair
sharing. A varying link has the bandwidth and latency of the start of a transfer's turn.

Store-and-forward: a link starts a transfer after its complete arrival, so every link adds its latency and its
serialisation, as in ASTRA-sim's congestion-aware network (astra-network-analytical, congestion_aware/Link.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import simpy
from simpy.events import Event

from simsys.platform.calendar_link import CalendarLink, CutThroughLink, Hop, Parallel, Route, StoreAndForwardLink
from simsys.platform.claims import Claim
from simsys.platform.environment import Environment
from simsys.platform.flight import Flight
from simsys.platform.link_schedule import Step
from simsys.platform.link_spec import LinkSpec
from simsys.platform.network import LockStep, Network, Pairs
from simsys.platform.routing import Hop as Links
from simsys.platform.routing import Way
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.platform.uncontended import UncontendedSchedule
from simsys.sums import ordered_sum

Routes = Sequence[Route]
"""Transfers that start together, in the order in which links serve them."""

_REHEARSALS = 1 << 14
"""Most step times that are kept."""


class FifoNetwork(Network[CalendarLink, Routes]):
    """Links with calendars; uncontended collectives take one event."""

    def __init__(
        self, env: simpy.Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        super().__init__(env, topology, timelines)
        self._hops: dict[Links, Hop] = {}
        self._routes: dict[tuple[int, int], Route] = {}
        self._claims: dict[frozenset[CalendarLink], CalendarClaim] = {}
        self._quiet: list[UncontendedSchedule[Routes]] = []
        self._step_s: dict[tuple[int, float, int], float] = {}

    @property
    def links(self) -> Sequence[CalendarLink]:
        """All links; collectives in progress are brought up to this moment."""
        for claim in self._claims.values():
            if claim.run is not None:
                claim.give_way()
        return self.links_at_rest

    @property
    def links_at_rest(self) -> Sequence[CalendarLink]:
        """As `Network.links_at_rest`."""
        for schedule in self._quiet:
            schedule.settle()
        return self._links

    def begin(self, transfers: Routes, nbytes: float, pause_s: float = 0.0) -> Event:
        """As `Network.begin`, in the order of the transfers."""
        flight = Flight(self.env, nbytes, pause_s)
        flight.start(transfers)
        return flight.event

    def route(self, src: int, dst: int) -> Route:
        """The hops from GPU `src` to GPU `dst`, cached."""
        found = self._routes.get((src, dst))
        if found is None:
            found = self._routes[src, dst] = tuple(self._hop(links) for links in self.way(src, dst))
        return found

    def _hop(self, links: Links) -> Hop:
        if len(links) == 1:
            return self._links[links[0][0]]
        found = self._hops.get(links)
        if found is None:
            found = self._hops[links] = Parallel([(self._links[link], share) for link, share in links])
        return found

    def _prepare(self, pairs: Pairs) -> Routes:
        return tuple(route for route in (self.route(src, dst) for src, dst in pairs) if route)

    def schedule(self, steps: Iterable[LockStep], *, joined: bool = False) -> UncontendedSchedule[Routes]:
        """Prepare steps in lockstep; while their links are uncontended, they are not carried out one by one."""
        return UncontendedSchedule(self, self._steps(steps))

    def step_seconds(self, transfers: Routes, nbytes: float, time_s: float = 0.0) -> float:
        """As `Network.step_seconds`, by a rehearsal on idle copies of the links."""
        key = id(transfers), nbytes, self.epoch(time_s)  # prepared transfers live as long as the network
        found = self._step_s.get(key)
        if found is None:
            if len(self._step_s) == _REHEARSALS:
                self._step_s.clear()
            found = self._step_s[key] = _rehearse(transfers, nbytes, time_s)[0]
        return found

    def claim(self, steps: Sequence[Step[Routes]]) -> Claim:
        """Claim links, as `UncontendedNetwork.claim`."""
        links = dict.fromkeys(
            link for step in steps for route in step.transfers for hop in route for link in hop.members
        )
        key = frozenset(links)
        found = self._claims.get(key)
        if found is None:
            found = self._claims[key] = CalendarClaim(self.env, tuple(links))
        return found

    def resume(self, step: Step[Routes], started_s: float) -> Event:
        """Materialise a step, as `UncontendedNetwork.resume`."""
        flight = Flight(self.env, step.nbytes, step.pause_s)
        flight.resume(step.transfers, started_s)
        return flight.event

    def count(self, step: Step[Routes], times: int, time_s: float) -> None:
        """Count traffic, as `UncontendedNetwork.count`."""
        for link, copy in _rehearse(step.transfers, step.nbytes, time_s)[1].items() if times else ():
            link.nbytes += times * copy.nbytes
            link.busy_s += times * copy.busy_s
            link.queued_s += times * copy.queued_s

    def remember(self, schedule: UncontendedSchedule[Routes]) -> None:
        """Record steps, as `UncontendedNetwork.remember`."""
        self._quiet.append(schedule)


class CalendarClaim(Claim):
    """A claim on links with calendars, which know their holder.

    Args:
        env: The environment.
        links: The links.
    """

    __slots__ = ("_links",)

    def __init__(self, env: simpy.Environment, links: Sequence[CalendarLink]) -> None:
        timelines = [link.timeline for link in links if link.timeline is not None]
        super().__init__(env, [time_s for each in timelines for time_s in each.changes_s])
        self._links = links

    def _acquire(self) -> bool:
        now = self._env._now
        for link in self._links:
            if link.holder is not None:
                link.holder.give_way()
            if link.free_at_s > now or link.awaited or link.turns:
                return False
        for link in self._links:
            link.holder = self
        return True

    def _release(self) -> None:
        for link in self._links:
            link.holder = None


class CutThroughNetwork(FifoNetwork):
    """A transfer is on all links of its route at once."""

    contention = "fifo, cut-through"

    @staticmethod
    def _make_link(spec: LinkSpec) -> CutThroughLink:
        return CutThroughLink(spec)


class StoreAndForwardNetwork(FifoNetwork):
    """A transfer is on one link of its route after the other."""

    contention = "fifo, store-and-forward"

    @staticmethod
    def _make_link(spec: LinkSpec) -> StoreAndForwardLink:
        return StoreAndForwardLink(spec)

    def _slowest(self, ways: Sequence[Way], load: Mapping[int, float]) -> float:
        """Every hop serialises once; at the worst hop, the other transfers come first."""
        slowest_s = 0.0  # per byte
        for way in ways:
            hops = [
                max((share / self._links[link].spec.bytes_per_s, load[link] / share - 1.0) for link, share in hop)
                for hop in way
            ]
            shared_s = max((own_s * others for own_s, others in hops), default=0.0)
            slowest_s = max(slowest_s, ordered_sum(own_s for own_s, _ in hops) + shared_s)
        return 1.0 / slowest_s if slowest_s else float("inf")


def _rehearse(transfers: Routes, nbytes: float, time_s: float) -> tuple[float, dict[CalendarLink, CalendarLink]]:
    """Simulate transfers on idle copies of their links in the state of a given time.

    Returns:
        The duration, and the copies with their traffic.
    """
    copies: dict[CalendarLink, CalendarLink] = {}
    hops: dict[Hop, Hop] = {}
    for hop in (hop for route in transfers for hop in route):
        if hop not in hops:
            for link in hop.members:
                if link not in copies:
                    copies[link] = type(link)(link.spec_at(time_s))
            hops[hop] = hop.of(copies)
    routes = [tuple(hops[hop] for hop in route) for route in transfers]
    return Flight(Environment(), nbytes).rehearse(routes), copies
