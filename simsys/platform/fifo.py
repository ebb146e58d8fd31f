"""First come, first served on every link: a calendar per link, each reserved when the transfer reaches it.

Cut-through: a transfer's head moves on to the next link one latency after it entered the previous one; its tail leaves
a link when the link has serialised it, but not before it has come in. So an undisturbed transfer takes the
sum of the latencies plus the bytes over the slowest link, and each link of the route is reserved at the
moment the head reaches it, never ahead of time. A link is reserved for as long as it needs itself: while a
transfer trickles in from a slower link, packets of others pass, or eight NICs could not share one fast uplink.

A link that changes has the bandwidth and latency of the moment when a transfer gets its turn there.

Store-and-forward: a link takes a transfer on when it has all of it, so every link adds its latency and its
serialisation, as in ASTRA-sim's congestion-aware network (astra-network-analytical, congestion_aware/Link.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simpy.events import Event

from simsys.platform.claims import Claims
from simsys.platform.environment import Environment
from simsys.platform.flight import CalendarLink, CutThroughLink, Flight, StoreAndForwardLink
from simsys.platform.link import Link
from simsys.platform.network import LockStep, Network
from simsys.platform.quiet import QuietSchedule
from simsys.platform.schedule import Route
from simsys.platform.timeline import Timeline
from simsys.platform.topology import LinkSpec, Topology


class FifoNetwork(Network[CalendarLink]):
    """Links with calendars; collectives whose links nobody else uses take one event."""

    def __init__(
        self, env: Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        super().__init__(env, topology, timelines)
        self._claims = Claims(env)

    @property
    def links(self) -> Sequence[CalendarLink]:
        """All links; collectives in progress are brought up to this moment."""
        self._claims.settle()
        return self._links

    def transfer_all(self, routes: Iterable[Route[CalendarLink]], nbytes: float, pause_s: float = 0.0) -> Event:
        """Send `nbytes` over each of `routes` at once, in this order; fires `pause_s` after all have arrived."""
        flight = Flight(self.env, nbytes, pause_s)
        flight.start(routes)
        return flight.event

    def schedule(self, steps: Iterable[LockStep]) -> QuietSchedule:
        """Prepare steps in lockstep; while nobody else uses their links, they are not carried out one by one."""
        return QuietSchedule(self.env, self._steps(steps), self.transfer_all, self._claims)


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

    def _slowest(self, routes: Sequence[Route[CalendarLink]], load: Mapping[Link, int]) -> float:
        """Every link serialises once; at the worst one, the others that share it come first."""
        slowest_s = 0.0  # per byte
        for route in routes:
            each = [(1.0 / link.spec.bytes_per_s, load[link] - 1) for link in route]
            shared_s = max((own * others for own, others in each), default=0.0)
            slowest_s = max(slowest_s, sum(own for own, _ in each) + shared_s)
        return 1.0 / slowest_s if slowest_s else float("inf")
