"""Medium detail on shared links: what is under way slows others on its links, but its steps are not simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.communicator import Communicator
from simsys.executors.medium import MediumDetail
from simsys.executors.meeting import Part
from simsys.executors.queued import QueuedCollectives
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.executors.steps.occupied import OccupiedRuns
from simsys.executors.steps.pass_queue import Line, PipelineRun
from simsys.executors.steps.passes import PassOn
from simsys.ops import Collective, Forward, Pipelined, Program, Send, Transfer
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.device import Device
from simsys.platform.events import At, Callback
from simsys.platform.network import Pairs
from simsys.platform.occupancy import Footprint
from simsys.starter import Drafting, Stepper

SLIGHT, SLIGHT_IN_TURN = 0.02, 0.0005
"""Of the time of all who use shared links: if they lose less to each other, times are hardly in doubt. Links that
serve in turn are waited for also where these are not full, which depends on when."""
DOUBT = 0.1
"""By how much times are off at most where links are shared, unless half of what is lost to others is more; this holds
for random scenarios of serving held against high detail (`tests/agreement/test_agreement.py`)."""


class OccupyingDetail(QueuedCollectives, MediumDetail):
    """Roles and macro operations as at medium, each of which occupies its links; takes the arguments of `Executor`.

    A stand-in's transfers occupy the links of all whom it stands for. Passes of programs are simulated one by one,
    since when they end depends on others, and so are the steps of serving pipelines, stage by stage.
    """

    contention = "occupied links (max-min rates)"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._footprints: dict[tuple[int, int, int], Footprint] = {}
        self._lanes_taken: dict[tuple[Group, Group, int], Footprint] = {}
        self._passing: dict[Group, tuple[Device, float]] = {}  # what computes a pass, and its seconds of work
        self._latest_pass: dict[Group, Event] = {}
        self._lines: dict[tuple[Group, Group], Line] = {}
        self._stopped = False

    def warnings(self) -> list[str]:
        """Also that links were shared so much that the times are doubtful."""
        network = self.platform.network
        lost, link = network.occupancy.lost_share(), network.occupancy.most_shared()
        if link is None or lost < (SLIGHT_IN_TURN if network.in_turn else SLIGHT):
            return super().warnings()
        used = ", ".join(dict.fromkeys(self._users(link))) or "transfers"
        doubt = max(DOUBT, lost / 2.0)
        text = (
            f"{used} share links, most of all {network.link_name(link)}; lod: medium loads shared links evenly, "
            f"so times may be off by up to {doubt:.0%}; lod: high carries out every transfer"
        )
        return [*super().warnings(), text]

    def _users(self, link: int) -> Iterator[str]:
        """What uses a link, for people."""
        for group, communicator in self._communicators.items():
            if any(link in footprint.shares for footprint in communicator.footprints()):
                yield f"{group.axis} groups of {group.size}"
        if any(link in footprint.shares for footprint in self._lanes_taken.values()):
            yield "what teams hand over"
        if any(link in footprint.shares for footprint in self._footprints.values()):
            yield "messages"

    def parts(self, communicator: Communicator, op: Collective) -> Sequence[Part]:
        """Occupy the links for as long as it takes."""
        return [(communicator.links.shifts, partial(communicator.occupy, op.kind, op.nbytes))]

    def send(self, op: Send) -> Event:
        """Occupy the route from when the rank's computation is done."""
        delivered = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        self.tally.sent(op)
        start_s = self.now(op.rank)

        def arrived(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            delivered.succeed(start_s)

        def depart(_: Event | None = None) -> None:
            seconds = self.lanes.message_s(op.rank, op.dst, op.nbytes, start_s)
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
        seconds = self._transfer_seconds(op)
        self.platform.network.occupancy.start([(route, op.nbytes)], seconds, done, nbytes=op.nbytes)
        return arrived

    def forward(self, op: Forward) -> Event:
        """Occupy the team's links all the time, with what its collectives need spread over the pass."""
        if op.team.size == 1:
            return super().forward(op)
        ended, before = Event(self.env), self._latest_pass.get(op.team)
        self._latest_pass[op.team] = ended
        if before is None or before.processed:
            self._pass_on(op, ended)
        else:  # such as a draft by the model's own layers
            before.callbacks.append(lambda _: self._pass_on(op, ended))
        return ended

    def _pass_on(self, op: Forward, ended: Event) -> None:
        """Begin a pass, the one before of the team having ended."""
        self.tally.passed(op, op.batch)
        communicator, cost = self.communicator(op.team), self.pass_cost(op)
        device = self.platform.devices[op.rank]
        start_s = max(self.env._now, device.free_at_s)
        compute_s, exchange_s = cost.seconds(op.batch, communicator.seconds_from(start_s))
        compute_s *= self.conditions.begin_step(op.team)
        device.busy_s += compute_s
        self._passing[op.team] = device, compute_s

        def done(_: Event) -> None:
            if self._passing.pop(op.team, None) is None:
                return
            device.free_at_s = self.env._now
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            ended.succeed()

        parts, steps, sent_bytes = communicator.loads(cost.exchanges(op.batch))
        seconds = op.host_s + compute_s + exchange_s
        burst = exchange_s / seconds
        self.platform.network.occupancy.start(parts, seconds, done, steps=steps, nbytes=sent_bytes, burst=burst)

    def pipelined(self, op: Pipelined) -> Event:
        """Pass by pass, since how long each takes depends on who uses its links."""
        return PipelineRun(self, op).event

    def drafting(self, team: Group, drafting: Drafting, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """Step by step."""
        return Executor.drafting(self, team, drafting, forward, done)

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: PassOn,
        done: Callable[[int], None],
    ) -> Stepper:
        """Step by step."""
        return Executor.pipeline(self, stages, parts, rank, forward, done)

    def stage_pass(self, op: Forward, ready_s: float | None = None) -> Event:
        """After the one before on the stage; the host works beside the passes of other batches."""
        if ready_s is None or ready_s <= self.env._now:
            return Event(self.env) if self._stopped else self.forward(replace(op, host_s=0.0))
        ended = Event(self.env)

        def finish(_: Event) -> None:
            ended.succeed()

        def begin(_: Event) -> None:
            self.stage_pass(op).callbacks.append(finish)

        At(self.env, ready_s, begin)
        return ended

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Occupy the routes of all ranks of the stage."""
        seconds, send = self._hand_on(op, stage, self.env._now), self.handed_on(op, stage)
        if send is None:
            At(self.env, self.env._now, arrived)
            return
        ends = op.passes[stage].team, op.passes[stage + 1].team
        parts = [(self._routes_between(*ends, op.transfers(stage)), send.nbytes)]
        start = self.platform.network.occupancy.start
        line = self._lines.setdefault(ends, Line())
        line.send(lambda ended: start(parts, seconds, ended, nbytes=send.nbytes), arrived)

    def stop(self) -> None:
        """Passes under way keep their links to their end, but not the GPUs."""
        super().stop()
        self._stopped = True
        for device, compute_s in self._passing.values():
            device.busy_s -= compute_s
        self._passing.clear()

    def _jump(self, team: Group) -> type[ClosedFormRuns]:
        """A team of one sends nothing."""
        return OccupiedRuns if team.size > 1 else ClosedFormRuns

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return Executor.program(self, op)

    def _routes_between(self, source: Group, target: Group, pairs: Pairs) -> Footprint:
        """Those of all messages from one team to another."""
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
