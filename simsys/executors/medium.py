"""Medium detail: one stand-in per role, macro operations, closed-form collectives.

A computation costs no event: the stand-in runs ahead of the clock on its own GPU and meets the clock again at
the next communication or wait (temporal decoupling, as in IEEE 1666 SystemC TLM-2.0, §10). Since the GPU is a
FIFO server that nobody else uses, this changes no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.communicator import Meeting
from simsys.ops import Compute, Forward, Send
from simsys.platform.environment import At


class MediumDetail(Executor):
    """Phases instead of layers, roles instead of ranks."""

    contention = "none (idle links)"

    @staticmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """The first rank of a role stands for all of it."""
        return role[0]

    def compute(self, op: Compute) -> Event:
        """Advance the rank's GPU; the event has already happened."""
        device = self.platform.devices[op.rank]
        seconds = self._work_cost.seconds(op.work, device.spec)
        end_s = device.reserve(self.env._now, seconds)
        for hook in self.probes.operation:
            hook(op, end_s - seconds, end_s)
        return self.env.done

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """One event, at the end of the closed form."""
        op = meeting.op
        communicator = self.communicator(op.group)
        start_s = max(ready_s, communicator.free_at_s)
        communicator.free_at_s = end_s = start_s + communicator.seconds(op.kind, op.nbytes)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, meeting.event)

    def forward(self, op: Forward) -> Event:
        """The whole pass as one event."""
        device = self.platform.devices[op.rank]
        compute_s, exchange_s = self.pass_cost(op).seconds(op.batch, self.communicator(op.team).seconds)
        start_s = max(self.env._now, device.free_at_s)
        device.free_at_s = end_s = start_s + (op.host_s + compute_s + exchange_s)
        device.busy_s += compute_s
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return At(self.env, end_s)

    def send(self, op: Send) -> Event:
        """One event when the message has arrived over an idle route."""
        event = self._message(op.rank, op.dst, op.tag, receiving=False)
        start_s = self.now(op.rank)
        latency_s, bytes_per_s = self.platform.network.idle_path([(op.rank, op.dst)])
        end_s = start_s + latency_s + op.nbytes / bytes_per_s
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, event)
        return event
