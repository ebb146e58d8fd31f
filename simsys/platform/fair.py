"""Transfers as flows that share links max-min fairly: none can get more without one that has no more getting less.

A transfer takes all links of its route at once, at one rate; its last byte arrives the latency of the
route after it has been sent. Whenever flows start or end, the rates of those affected are found anew, as in SimGrid
(Casanova et al. 2014, "Versatile, scalable, and accurate simulation of distributed applications and platforms",
J. Parallel Distrib. Comput. 74(10)). All that starts and ends at one moment is one change. Between changes nothing
happens, so the next end is one event. When links change, those who are under way get new rates too; the latency of a
route is that of the moment when the last byte is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from simpy.events import Event, EventPriority

from simsys.platform.environment import LATE, At, Environment
from simsys.platform.flow import Batch, FairLink, Flow
from simsys.platform.max_min import fair_rates
from simsys.platform.network import Network
from simsys.platform.schedule import Route
from simsys.platform.timeline import Timeline
from simsys.platform.topology import LinkSpec, Topology

_SAME_MOMENT = 1e-14  # ends that differ by no more, relative to the clock, are one
_STALE_ENDS = 1000  # so many outdated entries are kept before they are thrown away
_SETTLING = EventPriority(LATE + 1)  # after all that starts at a moment


class FairNetwork(Network[FairLink]):
    """Links that are shared max-min fairly."""

    contention = "fair (max-min)"
    in_turn = False

    def __init__(
        self, env: Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        super().__init__(env, topology, timelines)
        self._due_s = deque(self.changes_s)  # when links change that are still as they were before
        self._next_change_s = self._due_s[0] if self._due_s else float("inf")
        self._changed: dict[FairLink, None] = {}
        self._came: list[Flow] = []
        self._lowest_bytes_per_s = float("inf")
        self._ends: list[tuple[float, int, Flow]] = []  # a heap; an entry counts if it is its flow's present end
        self._serial = self._active = 0
        self._wake_s = float("inf")

    @staticmethod
    def _make_link(spec: LinkSpec) -> FairLink:
        return FairLink(spec)

    def transfer_all(self, routes: Iterable[Route[FairLink]], nbytes: float, pause_s: float = 0.0) -> Event:
        """Send `nbytes` over each of `routes` at once; fires `pause_s` after all have arrived."""
        if self._next_change_s <= self.env._now:
            self._renew_links(self.env._now)
        routes = list(routes)
        batch = Batch(self.env, len(routes), pause_s)
        for route in routes:
            self._expect_change()
            flow = Flow(route, nbytes, batch, self.env._now)
            self._came.append(flow)
            for link in route:
                link.flows[flow] = None
                link.nbytes += nbytes
                self._changed[link] = None
        self._active += len(routes)
        return batch.event

    def _expect_change(self) -> None:
        """Find the rates anew at the end of this moment."""
        if not self._changed:
            event = Event(self.env)
            event.callbacks.append(self._change)
            self.env.fire_at(self.env._now, event, priority=_SETTLING)

    def _change(self, _: Event) -> None:
        """Give the flows affected their new rates."""
        now, lowest = self.env._now, self._lowest_bytes_per_s
        for flow in self._came:
            for link in flow.route:
                lowest = min(lowest, link.bytes_per_s / len(link.flows))
        ends, serial = self._ends, self._serial
        for flow, bytes_per_s, limit in fair_rates(self._changed, lowest):
            if bytes_per_s != flow.bytes_per_s:
                flow.change(bytes_per_s, limit, now)
                serial += 1
                heappush(ends, (flow.end_s, serial, flow))
        self._serial = serial
        self._changed, self._came, self._lowest_bytes_per_s = {}, [], float("inf")
        self._await_next_end()

    def _await_next_end(self) -> None:
        """Wake up when the next flow ends."""
        ends = self._ends
        if len(ends) > 2 * self._active + _STALE_ENDS:
            self._ends = ends = [entry for entry in ends if entry[2].end_s == entry[0]]
            heapify(ends)
        while ends and ends[0][0] != ends[0][2].end_s:
            heappop(ends)
        if not ends:
            return
        next_s = min(ends[0][0], self._next_change_s)
        if next_s < self._wake_s:
            self._wake_s = next_s
            At(self.env, self._wake_s, self._wake)

    def _wake(self, _: Event) -> None:
        """Let flows end whose time has come; if the next end has moved since this was scheduled, none has."""
        now = self.env._now
        if now != self._wake_s:
            return
        self._wake_s = float("inf")
        ends, until_s = self._ends, now * (1.0 + _SAME_MOMENT)
        while ends and ends[0][0] <= until_s:
            end_s, _serial, flow = heappop(ends)
            if end_s == flow.end_s:
                self._end(flow)
        if self._next_change_s <= now:
            self._renew_links(now)
        if not self._changed:
            self._await_next_end()

    def _renew_links(self, now: float) -> None:
        """Let links be what they are now, and find the rates of the flows on them anew."""
        while self._due_s and self._due_s[0] <= now:
            self._due_s.popleft()
        self._next_change_s = self._due_s[0] if self._due_s else float("inf")
        renewed = [link for link in self._links if link.timeline is not None and link.outdated(now)]
        for link in renewed:
            link.settle(now)
            link.renew(now)
        for flow in dict.fromkeys(flow for link in renewed for flow in link.flows if flow.bytes_per_s):
            self._expect_change()
            flow.renew(now)
            self._serial += 1
            heappush(self._ends, (flow.end_s, self._serial, flow))
            self._changed.update(dict.fromkeys(flow.route))
            self._lowest_bytes_per_s = 0.0

    def _end(self, flow: Flow) -> None:
        self._expect_change()
        flow.finish(self.env._now)
        self._active -= 1
        self._lowest_bytes_per_s = min(self._lowest_bytes_per_s, flow.bytes_per_s)
        for link in flow.route:
            del link.flows[flow]
            self._changed[link] = None
