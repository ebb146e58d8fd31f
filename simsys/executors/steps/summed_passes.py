"""Passes with summed durations: each is one event, at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.core import Core
from simsys.executors.own_work import SERVING_AHEAD
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.platform.device import Device
from simsys.platform.events import At
from simsys.platform.turns import TurnServer

MOST_UNDER_WAY = 1 << 16
"""Of serving passes, far more than all replicas have under way at a time."""


class SummedPasses(ServingPasses):
    """A pass is one event, on idle links; arguments as for `ServingPasses`."""

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self._latest: deque[tuple[Device, float, float]] = deque(maxlen=MOST_UNDER_WAY)  # passes: when they end, work

    def serves(self) -> None:
        """A serving team begins: GPUs and links cannot be requested, since its steps are carried out ahead."""
        if self.own is not None:
            self.own.refuse(TurnServer, SERVING_AHEAD)

    def forward(self, op: Forward) -> Event:
        """The whole pass as one event."""
        return At(self.env, self._pass(op, self.env._now, op.host_s))

    def together(self, ops: Sequence[Forward]) -> Event:
        """One event for all whose ends are known."""
        if not self.foreseen(ops[0].team):
            return super().together(ops)
        now_s = self.env._now
        return At(self.env, max([self._pass(op, now_s, op.host_s) for op in ops]))

    def foreseen(self, team: Group) -> bool:
        """Whether the end of a pass is known at its beginning."""
        return True

    def pipelined(self, op: Pipelined) -> Event:
        """All stages as one event: a stage serves batches in the order in which they were issued, as each does."""
        end_s = self.env._now + op.passes[0].host_s
        for stage, each in enumerate(op.passes):
            end_s = self._pass(each, end_s)
            if stage + 1 < len(op.passes):
                channel = self.idle.channels.between(each.team, op.passes[stage + 1].team)
                end_s = channel.arrival_s(end_s, self.idle.hand_on(op, stage, end_s))
        return At(self.env, end_s)

    def _pass(self, op: Forward, ready_s: float, host_s: float = 0.0) -> float:
        """When a team has finished with a batch that reaches it at `ready_s`, `host_s` seconds of host work first."""
        team, batch = op.team, op.batch
        device = self.platform.devices[team.ranks[0]]
        if len(team.ranks) > 1:
            self.idle.tally.passed(op, batch)
        start_s = device.free_at_s
        if start_s < ready_s:  # `max` written out: this runs for every pass
            start_s = ready_s
        compute_s, exchange_s = self.pass_cost(op, start_s).seconds(batch)
        compute_s *= self.compute_speed.begin_step(team)
        device.free_at_s = end_s = start_s + (host_s + compute_s + exchange_s)
        device.busy_s += compute_s
        self._latest.append((device, end_s, compute_s))
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return end_s

    def stop(self) -> None:
        """A pass is counted at its beginning."""
        now_s = self.env._now
        for device, end_s, compute_s in self._latest:
            if end_s > now_s:
                device.busy_s -= compute_s
                device.free_at_s = min(device.free_at_s, now_s)
