"""Analytical collectives and messages: one event each, at the end of a closed form on idle links."""

from __future__ import annotations

from simpy.events import Event

from simsys.collectives.base import CollectiveKind
from simsys.executors.communication.base import Communication, Exchange
from simsys.executors.communicator import Communicator
from simsys.executors.core import Core
from simsys.executors.meeting import Meeting
from simsys.ops import Collective, Pipelined, Send, Transfer
from simsys.platform.environment import Environment
from simsys.platform.events import At, Callback


class ClosedExchange:
    """A collective of a serving team with the time of idle links.

    Args:
        env: The environment.
        communicator: The communicator of the team.
        kind: The kind of collective.
        nbytes: Its full buffer.
    """

    def __init__(self, env: Environment, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> None:
        self._env, self._communicator, self._kind, self._nbytes = env, communicator, kind, nbytes
        self.idle_s = self.seconds(0.0)

    def seconds(self, start_s: float) -> float:
        """Duration from a start time."""
        return self._communicator.seconds(self._kind, self._nbytes, start_s)

    def start(self, done: Callback) -> None:
        """Count it, and call `done` at its end."""
        self._communicator.count(self._kind, self._nbytes)
        At(self._env, self._env._now + self.seconds(self._env._now), done)


class ClosedForms(Communication):
    """Communication with the time of idle links.

    Args:
        core: The services that all components share.
        notes: Whether the times of transfers are noted, to find which of them meet.
    """

    contention = "none (idle links)"

    def __init__(self, core: Core, *, notes: bool = True) -> None:
        super().__init__(core)
        self._notes = notes
        self._tally, self._lanes, self._meets = core.idle.tally, core.idle.lanes, core.idle.meets

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """One event, at the end of the closed form."""
        self.env.fire_at(self.carried_out(meeting.op, ready_s), meeting.event)

    def carried_out(self, op: Collective, ready_s: float) -> float:
        """Carry out a collective whose ranks are ready; no event, but its end (s)."""
        communicator = self.communicator(op.group)
        communicator.count(op.kind, op.nbytes)
        start_s = max(ready_s, communicator.free_at_s)
        communicator.free_at_s = end_s = start_s + communicator.seconds(op.kind, op.nbytes, start_s)
        if self._notes:
            self._meets.note(communicator.use(op.kind, op.nbytes, self._meets), start_s, end_s)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return end_s

    def send(self, op: Send) -> Event:
        """One event when the message has arrived over an idle route."""
        event = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        self._tally.sent(op)
        start_s = self.now(op.rank)
        end_s = start_s + self._lanes.message_s(op.rank, op.dst, op.nbytes, start_s)
        if self._notes:
            self._meets.note(self._lanes.use(op.rank, op.dst, self._meets), start_s, end_s)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, event, start_s)
        return event

    def transfer(self, op: Transfer) -> Event:
        """One event when all messages have arrived over routes that are idle otherwise."""
        start_s = self.env._now
        end_s = start_s + self.idle.transfer(op, start_s)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return At(self.env, end_s)

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """One event at the end."""
        At(self.env, self.env._now + self.idle.hand_on(op, stage, self.env._now), arrived)

    def exchange(self, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> Exchange:
        """One event at the end."""
        return ClosedExchange(self.env, communicator, kind, nbytes)
