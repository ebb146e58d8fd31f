"""Communication that loads links evenly for its duration, and slows down where loads exceed bandwidth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from simpy.events import Event

from simsys.collectives.base import CollectiveKind
from simsys.executors.communication.base import Exchange
from simsys.executors.communication.closed_form import ClosedExchange
from simsys.executors.communication.lines import Line
from simsys.executors.communication.queued import QueuedCollectives
from simsys.executors.communicator import Communicator
from simsys.executors.core import Core
from simsys.executors.meeting import Part
from simsys.ops import Collective, Pipelined, Send, Transfer
from simsys.parallel.layout import Group
from simsys.platform.events import At, Callback
from simsys.platform.network import Pairs
from simsys.platform.occupant import Footprint

SLIGHT, SLIGHT_IN_TURN = 0.02, 0.0005
"""Share of time lost on shared links below which times are exact enough.

FIFO links also cause waits when they are not full, which depends on exact times.
"""
DOUBT = 0.1
"""Largest error of times on shared links, unless half of the lost time is more; see
`tests/agreement/test_agreement.py`. Waits of requests in queues grow by more than times of steps near saturation: of
300 random scenarios of serving, TTFT was once 77 % different."""


class Loads(QueuedCollectives):
    """Transfers occupy the links of all ranks that the simulated one represents; arguments as for `Component`."""

    contention = "occupied links (max-min rates)"

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._tally, self._lanes = core.idle.tally, core.idle.lanes
        self._footprints: dict[tuple[int, int, int], Footprint] = {}
        self._lanes_taken: dict[tuple[Group, Group, int], Footprint] = {}
        self._lines: dict[tuple[Group, Group], Line] = {}

    def warnings(self) -> Iterator[str]:
        """The warning that times are inexact because of shared links."""
        network = self.platform.network
        lost, link = network.occupancy.lost_share(), network.occupancy.most_shared()
        if link is None or lost < (SLIGHT_IN_TURN if network.in_turn else SLIGHT):
            return
        used = ", ".join(dict.fromkeys(self._users(link))) or "transfers"
        doubt = max(DOUBT, lost / 2.0)
        yield (
            f"{used} share links, most of all {network.link_name(link)}; lod: medium loads shared links evenly, "
            f"so times may be off by up to {doubt:.0%}, and waits in queues near saturation by more; "
            "lod: high carries out every transfer"
        )

    def _users(self, link: int) -> Iterator[str]:
        """Name of the users of a link, for reports."""
        for communicator in self.core.communicators():
            if any(link in footprint.shares for footprint in communicator.link_loads.footprints()):
                yield f"{communicator.group.axis} groups of {communicator.group.size}"
        if any(link in footprint.shares for footprint in self._lanes_taken.values()):
            yield "what teams hand over"
        if any(link in footprint.shares for footprint in self._footprints.values()):
            yield "messages"

    def parts(self, communicator: Communicator, op: Collective) -> Sequence[Part]:
        """Occupy the links for the duration of a transfer."""
        return [(communicator.links.shifts, partial(self._occupy, communicator, op))]

    def _occupy(self, communicator: Communicator, op: Collective, done: Callback) -> None:
        """Occupy the links for the duration of a collective from now on, then call `done`."""
        kind, nbytes, loads = op.kind, op.nbytes, communicator.link_loads
        communicator.count(kind, nbytes)
        steps, sent_bytes = loads.steps(kind, nbytes)
        parts, seconds = [(loads.footprint(kind, nbytes), nbytes)], communicator.seconds(kind, nbytes, self.env._now)
        self.platform.network.occupancy.start(parts, seconds, done, steps=steps, nbytes=sent_bytes)

    def send(self, op: Send) -> Event:
        """Occupy the route from when the rank's computation is done."""
        delivered = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        self._tally.sent(op)
        start_s = self.now(op.rank)

        def arrived(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            delivered.succeed(start_s)

        def depart(_: Event | None = None) -> None:
            seconds = self._lanes.message_s(op.rank, op.dst, op.nbytes, start_s)
            self.platform.network.occupancy.start([(self._route(op), op.nbytes)], seconds, arrived, nbytes=op.nbytes)

        if start_s > self.env._now:
            At(self.env, start_s, depart)
        else:
            depart()
        return delivered

    def transfer(self, op: Transfer) -> Event:
        """Occupy the routes of all messages."""
        arrived, started_s = Event(self.env), self.env._now

        def done(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, started_s, self.env._now)
            arrived.succeed()

        route = self._routes_between(op.source, op.target, op.pairs)
        seconds = self.idle.transfer(op, started_s)
        self.platform.network.occupancy.start([(route, op.nbytes)], seconds, done, nbytes=op.nbytes)
        return arrived

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Occupy the routes of all ranks of the stage."""
        seconds, send = self.idle.hand_on(op, stage, self.env._now), self.idle.handed_on(op, stage)
        if send is None:
            At(self.env, self.env._now, arrived)
            return
        ends = op.passes[stage].team, op.passes[stage + 1].team
        parts = [(self._routes_between(*ends, op.transfers(stage)), send.nbytes)]
        start = self.platform.network.occupancy.start
        line = self._lines.setdefault(ends, Line())
        line.send(lambda ended: start(parts, seconds, ended, nbytes=send.nbytes), arrived)

    def exchange(self, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> Exchange:
        """The time of idle links: the transfers of a pass are spread over its whole duration."""
        return ClosedExchange(self.env, communicator, kind, nbytes)

    def _routes_between(self, source: Group, target: Group, pairs: Pairs) -> Footprint:
        """Footprints of all messages from one team to another."""
        key = source, target, self.platform.network.epoch(self.env._now)
        found = self._lanes_taken.get(key)
        if found is None:
            network = self.platform.network
            ways = [(network.way(src, dst), 1.0) for src, dst in pairs]
            found = self._lanes_taken[key] = network.occupancy.footprint(ways, network.traffic)
        return found

    def _route(self, op: Send) -> Footprint:
        key = op.rank, op.dst, self.platform.network.epoch(self.env._now)
        found = self._footprints.get(key)
        if found is None:
            network = self.platform.network
            ways = [(network.way(op.rank + shift, op.dst + shift), 1.0) for shift in self.images.shifts(key[:2])]
            found = self._footprints[key] = network.occupancy.footprint(ways, network.traffic)
        return found
