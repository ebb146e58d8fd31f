"""Transfers as flows that share links max-min fairly: no flow can get more unless a flow with no more gets less.

A transfer uses all links of its path at one rate; its last byte arrives one path latency after it has been sent. When
flows start or end, rates are recomputed, as in SimGrid (Casanova et al. 2014, "Versatile, scalable, and accurate
simulation of distributed applications and platforms", J. Parallel Distrib. Comput. 74(10)). Simultaneous starts and
ends are one change.

Nothing happens between changes, so the next end is one event. The transfers of a collective's step are one set of
flows. When links change, active flows get new rates, too; the latency of a path is that at the time of the last byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from simsys.errors import UsageError
from simsys.platform.events import LATE, At, processed
from simsys.platform.flow_set import FlowSet, Portion, Stream
from simsys.platform.hop_units import Floats
from simsys.platform.joined_hops import JoinedHops
from simsys.platform.link import Link
from simsys.platform.link_spec import LinkSpec
from simsys.platform.max_min import losses, portions
from simsys.platform.neighbours import Neighbours
from simsys.platform.network import Network
from simsys.platform.pending_transfers import PendingTransfers
from simsys.platform.rate_cache import RateCache
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.platform.turns import Request, Sharing

SAME_MOMENT = 1e-14
"""Ends that differ by no more, relative to the clock, are one."""
_STALE_ENDS = 1000  # so many outdated entries are kept before they are thrown away
_SETTLING = EventPriority(LATE + 1)  # after all that starts at a moment


class FairLink(Link):
    """A link with counters updated by the network."""

    sharing: Sharing | None = None

    def request(self) -> Request:
        """Refused: transfers share the bandwidth, and none has the link for itself."""
        raise UsageError(
            "links with contention: fair share their bandwidth and have no turns to request; send traffic with "
            "submit_network_transfer_task, or build the platform with contention: fifo"
        )

    def busy_before(self, now_s: float) -> float:
        """As `Link.busy_before`, up to the moment when the network was asked for its links."""
        return self.busy_s


class FluidNetwork(Network[FairLink, FlowSet]):
    """Links with bandwidth divided among their flows."""

    contention = "fair (max-min)"
    in_turn = False

    def __init__(
        self, env: simpy.Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        super().__init__(env, topology, timelines)
        self._due_s = deque(self.changes_s)  # when links change that are still as they were before
        self._next_change_s = self._due_s[0] if self._due_s else float("inf")
        self._epoch = 0  # time of the current rates and of uncounted traffic
        self._changed: dict[FlowSet, None] = {}
        self._settling, self._settles = processed(env), False  # an event, and whether it is to come at this moment
        self._ends: list[tuple[float, int, Stream]] = []  # a heap; an entry counts if it is its stream's present end
        self._wake_s, self._serial, self._active = float("inf"), 0, 0
        self._sets: list[FlowSet] = []
        self._neighbours, self._hops = Neighbours(), JoinedHops()
        self._known = RateCache(lambda sets: self._solve(sets, self._epoch), self._forget)
        self._portions: dict[Portion, None] = {}  # links with possibly uncounted time
        self._bandwidths: dict[int, Floats] = {}
        self._begun_bytes, self._busy_s, self._queued_s = (np.zeros(len(self._links)) for _ in range(3))

    @staticmethod
    def _make_link(spec: LinkSpec) -> FairLink:
        return FairLink(spec)

    def begin(self, transfers: FlowSet, nbytes: float, pause_s: float = 0.0) -> Event:
        """Begin transfers, as `Network.begin`."""
        now = self.env._now
        if self._next_change_s <= now:
            self._renew_links(now)
        batch = PendingTransfers(self.env, transfers.count, pause_s)
        if transfers.count:
            transfers.started_bytes += nbytes
            self._join(Stream(transfers, nbytes, batch, now))
        return batch.event

    def _join(self, stream: Stream) -> None:
        """Let flows be on their links from now on; claims on these give way."""
        whole = stream.flows.whole
        if not whole.known:
            self._make_known(whole)
        for claim in whole.claims:
            if claim.held:
                claim.give_way()
        whole.streams[stream] = None
        self._neighbours.sent(whole)
        self._active += 1
        self._expect_change(whole)

    def _make_known(self, whole: FlowSet) -> None:
        """A set of flows is about to be sent for the first time."""
        self._neighbours.introduce(whole)

    def _expect_change(self, whole: FlowSet) -> None:
        """Find the rates anew at the end of this moment."""
        self._changed[whole] = None
        if not self._settles:
            self._settling.callbacks, self._settles = [self._change], True
            heappush(self.env._queue, (self.env._now, _SETTLING, next(self.env._eid), self._settling))

    def _change(self, _: Event | None = None) -> None:
        """Give the flows affected their new rates."""
        changed, self._changed, self._settles = self._changed, {}, False
        seen: set[FlowSet] = set()  # to call the alias would take half a microsecond
        neighbours = self._neighbours
        for one in changed:
            for whole in (one,) if one.streams else neighbours.busy_near(one):
                if whole not in seen:
                    self._share(neighbours.together(whole, seen))
        self._await_next_end()

    def _share(self, streams: list[Stream]) -> None:
        """Find the rates of all streams that share links."""
        now = self.env._now
        for stream, first in zip(streams, self._known.rates(streams), strict=True):
            if first is stream.portion and not first.others:
                continue
            stream.settle(now)
            for portion in first.others:
                self._go_on(self._split(stream, portion), portion)
            stream.flows = first.flows
            self._go_on(stream, first)

    def _split(self, stream: Stream, portion: Portion) -> Stream:
        """Some flows of a stream as a stream of their own."""
        other = Stream(portion.flows, stream.left_bytes, stream.batch, stream.since_s)
        stream.flows.whole.streams[other] = None
        self._active += 1
        return other

    def _go_on(self, stream: Stream, portion: Portion) -> None:
        self._portions[portion] = None
        if stream.go_on(portion):
            self._serial += 1
            heappush(self._ends, (stream.end_s, self._serial, stream))

    def _solve(self, sets: Sequence[FlowSet], epoch: int) -> list[Portion]:
        return portions(sets, self._bytes_per_s(epoch), self._hops)

    def _bytes_per_s(self, epoch: int) -> Floats:
        """The bandwidth of every link between two changes."""
        found = self._bandwidths.get(epoch)
        if found is None:
            time_s = self.changes_s[epoch - 1] if epoch else 0.0
            rates = [link.spec_at(time_s).bytes_per_s for link in self._links]
            found = self._bandwidths[epoch] = np.array(rates, dtype=np.float64)
        return found

    def _await_next_end(self) -> None:
        """Wake up when the next stream ends."""
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
            At(self.env, next_s, self._wake)

    def _wake(self, _: Event) -> None:
        """End streams that are due; none if the next end has moved since scheduling."""
        now = self.env._now
        if now != self._wake_s:
            return
        self._wake_s = float("inf")
        ends, until_s = self._ends, now * (1.0 + SAME_MOMENT)
        while ends and ends[0][0] <= until_s:
            end_s, _serial, stream = heappop(ends)
            if end_s == stream.end_s:
                self._end(stream)
        if self._next_change_s <= now:
            self._renew_links(now)
        if self._settles:
            return
        if not self._changed:
            self._await_next_end()
        elif self.env._queue and self.env._queue[0][0] <= now:
            self._expect_change(next(iter(self._changed)))
        else:  # nothing else happens at this moment
            self._change()

    def _end(self, stream: Stream) -> None:
        now, flows = self.env._now, stream.flows
        stream.settle(now)
        flows.sent_bytes += stream.left_bytes  # a rounding
        stream.end_s = -1.0  # as no entry in a calendar
        del flows.whole.streams[stream]
        if not flows.whole.streams:
            self._neighbours.ended(flows.whole)
        self._active -= 1
        self._changed[flows.whole] = None
        stream.batch.arrive(flows.count, now + self._latency_s(flows, now))

    def _latency_s(self, flows: FlowSet, time_s: float) -> float:
        """The longest latency of some flows."""
        epoch = self.epoch(time_s)
        if flows.latency is None or flows.latency[0] != epoch:
            longest_s = max(map(self.steady(time_s).latency_s, dict.fromkeys(flows.ways)), default=0.0)
            flows.latency = epoch, longest_s
        return flows.latency[1]

    def _renew_links(self, now: float) -> None:
        """Update links to their current state, and recompute the rates of all streams."""
        while self._due_s and self._due_s[0] <= now:
            self._due_s.popleft()
        self._next_change_s = self._due_s[0] if self._due_s else float("inf")
        self._settle()
        self._forget()
        self._epoch = self.epoch(now)
        for whole in self._sets:
            if whole.streams:
                self._expect_change(whole)
        for link in self._links:
            if link.timeline is not None:
                link.renew(now)

    @property
    def links(self) -> Sequence[FairLink]:
        """All links with their traffic up to now."""
        self._settle()
        self._tell_links()
        return self._links

    def _settle(self) -> None:
        """Record carried bytes on the links."""
        for whole in self._sets:
            for stream in whole.streams:
                stream.settle(self.env._now)
        self._count_losses()
        for whole in self._sets:
            for each in (whole, *whole.subsets):
                if each.started_bytes or each.sent_bytes:
                    self._carried(each, each.started_bytes, each.sent_bytes, self._epoch)
                    each.started_bytes = each.sent_bytes = 0.0

    def _forget(self) -> None:
        """Forget the rates of combinations."""
        self._count_losses()
        self._known.clear()
        streams = [stream for whole in self._sets for stream in whole.streams]
        self._portions = {stream.portion: None for stream in streams if stream.portion is not None}

    def _count_losses(self) -> None:
        """Record the delay of flows by contention on the links."""
        late = [portion for portion in self._portions if portion.elapsed_s]
        self._lost(late, [portion.elapsed_s for portion in late], self._epoch)
        for portion in late:
            portion.elapsed_s = 0.0

    def _lost(self, late: Sequence[Portion], seconds: Sequence[float], epoch: int) -> None:
        """Put down to the links what flows have lost at their rates, compared with being alone, in some seconds."""
        if late:
            np.add.at(self._queued_s, *losses(late, seconds, self._bytes_per_s(epoch), epoch))

    def _carried(self, flows: FlowSet, started_bytes: float, sent_bytes: float, epoch: int) -> None:
        """Record the bytes begun and sent by each flow of a set on its links."""
        links, shares = flows.loads
        self._begun_bytes[links] += shares * started_bytes
        self._busy_s[links] += shares * sent_bytes / self._bytes_per_s(epoch)[links]

    def _tell_links(self) -> None:
        """Write recorded bytes to the links."""
        figures = self._begun_bytes, self._busy_s, self._queued_s
        for number in np.nonzero(np.any(figures, axis=0))[0].tolist():
            link = self._links[number]
            link.nbytes += float(self._begun_bytes[number])
            link.busy_s += float(self._busy_s[number])
            link.queued_s += float(self._queued_s[number])
        for each in figures:
            each.fill(0.0)
