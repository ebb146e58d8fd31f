"""Passes that occupy the links of their teams, and slow down with other occupants."""

from __future__ import annotations

from dataclasses import replace

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.core import Core
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.executors.steps.occupied import OccupiedRuns
from simsys.executors.steps.pass_queue import PipelineRun
from simsys.executors.steps.run_passes import TeamRuns
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.platform.device import Device
from simsys.platform.events import At, Callback


class OccupyingPasses(TeamRuns):
    """Passes with their collectives spread evenly over them; arguments as for `ServingPasses`.

    Steps of pipelines are simulated one by one, stage by stage, since their ends depend on other users.
    """

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self._passing: dict[Group, tuple[Device, float]] = {}  # the device of a pass, and its seconds of work
        self._latest_pass: dict[Group, Event] = {}
        self._stopped = False

    def forward(self, op: Forward) -> Event:
        """Occupy the team's links evenly during the pass, with the transfers of its collectives."""
        if self.foreseen(op.team):
            return super().forward(op)
        ended, before = Event(self.env), self._latest_pass.get(op.team)
        self._latest_pass[op.team] = ended
        if before is None or before.processed:
            self._pass_on(op, ended)
        else:  # such as a draft by the model's own layers
            before.callbacks.append(lambda _: self._pass_on(op, ended))
        return ended

    def foreseen(self, team: Group) -> bool:
        """A team of one sends nothing."""
        return team.size == 1

    def _pass_on(self, op: Forward, ended: Event) -> None:
        """Begin a pass, the one before of the team having ended."""
        self.idle.tally.passed(op, op.batch)
        communicator = self.communicator(op.team)
        device = self.platform.devices[op.rank]
        start_s = max(self.env._now, device.free_at_s)
        cost = self.pass_cost(op, start_s)
        compute_s, exchange_s = cost.seconds(op.batch)
        compute_s *= self.compute_speed.begin_step(op.team)
        device.busy_s += compute_s
        self._passing[op.team] = device, compute_s

        def done(_: Event) -> None:
            if self._passing.pop(op.team, None) is None:
                return
            device.free_at_s = self.env._now
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            ended.succeed()

        parts, steps, sent_bytes = communicator.link_loads.of(cost.exchanges(op.batch))
        seconds = op.host_s + compute_s + exchange_s
        duty_cycle = exchange_s / seconds
        self.platform.network.occupancy.start(
            parts, seconds, done, steps=steps, nbytes=sent_bytes, duty_cycle=duty_cycle
        )

    def pipelined(self, op: Pipelined) -> Event:
        """Pass by pass, since durations depend on other users of the links."""
        return PipelineRun(self, op).event

    def stage_pass(self, op: Forward, ready_s: float | None = None) -> Event:
        """After the previous pass on the stage; the host overlaps with passes of other batches."""
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
        self.communication.hand_on(op, stage, arrived)

    def stop(self) -> None:
        """Passes under way keep their links to their end, but not the GPUs."""
        super().stop()
        self._stopped = True
        for device, compute_s in self._passing.values():
            device.busy_s -= compute_s
        self._passing.clear()

    def runs_of(self, team: Group) -> type[ClosedFormRuns]:
        """In closed form where nothing can delay a step."""
        return ClosedFormRuns if self.foreseen(team) else OccupiedRuns
