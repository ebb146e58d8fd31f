"""Analytical collectives and messages: one event each, at the end of a closed form on idle links."""

from __future__ import annotations

from typing import Any

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.lanes import Lanes
from simsys.executors.meeting import Meeting
from simsys.executors.meets import Meets
from simsys.executors.tally import Tally
from simsys.ops import Pipelined, Send, Transfer
from simsys.platform.events import At


class ClosedForms(Executor):
    """Communication takes the time of links that nobody else uses; takes the arguments of `Executor`."""

    contention = "none (idle links)"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tally = Tally(self)
        """What has been sent."""
        self.lanes = Lanes(self.platform.network, self.images)
        """How long messages take."""
        self.meets = Meets(self.platform.network, lambda: self.env._now)
        """Whether transfers would have met."""

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """One event, at the end of the closed form."""
        op = meeting.op
        communicator = self.communicator(op.group)
        communicator.count(op.kind, op.nbytes)
        start_s = max(ready_s, communicator.free_at_s)
        communicator.free_at_s = end_s = start_s + communicator.seconds(op.kind, op.nbytes, start_s)
        self.meets.note(communicator.use(op.kind, op.nbytes, self.meets), start_s, end_s)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, meeting.event)

    def send(self, op: Send) -> Event:
        """One event when the message has arrived over an idle route."""
        event = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        self.tally.sent(op)
        start_s = self.now(op.rank)
        end_s = start_s + self.lanes.message_s(op.rank, op.dst, op.nbytes, start_s)
        self.meets.note(self.lanes.use(op.rank, op.dst, self.meets), start_s, end_s)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, event, start_s)
        return event

    def transfer(self, op: Transfer) -> Event:
        """One event when all messages have arrived over routes that are idle otherwise."""
        start_s = self.env._now
        end_s = start_s + self._transfer_seconds(op)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return At(self.env, end_s)

    def _transfer_seconds(self, op: Transfer) -> float:
        """How long a transfer that begins now takes on idle links; counts its bytes."""
        for src, dst in op.pairs:
            self.platform.network.traffic.between(src, dst).nbytes += op.nbytes
        return self.lanes.between_s(op.source, op.target, op.pairs, op.nbytes, self.env._now)

    def hand_on_seconds(self, op: Pipelined, stage: int, start_s: float = 0.0) -> float:
        """How long the hidden states need to the next stage, all ranks sending at once."""
        send = self.handed_on(op, stage)
        if send is None:
            return 0.0
        source, target = op.passes[stage].team, op.passes[stage + 1].team
        return self.lanes.between_s(source, target, op.transfers(stage), send.nbytes, start_s)

    def handed_on(self, op: Pipelined, stage: int) -> Send | None:
        """What the first rank of a stage sends to the next one."""
        nbytes = self.handed_on_bytes(op, stage)
        return Send(*op.transfers(stage)[0], nbytes, None, op.name) if nbytes else None

    def _hand_on(self, op: Pipelined, stage: int, start_s: float) -> float:
        """Count what a stage hands on; return how long that takes."""
        send = self.handed_on(op, stage)
        if send is not None:
            self.tally.sent(send)
        return self.hand_on_seconds(op, stage, start_s)
