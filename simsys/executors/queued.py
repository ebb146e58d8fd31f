"""Collectives that end when their links have carried them: those of one group queue for its communication stream."""

from __future__ import annotations

from abc import abstractmethod

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.communicator import Communicator, Meeting
from simsys.ops import Collective
from simsys.platform.environment import At, Callback


class QueuedCollectives(Executor):
    """Runs the collectives of a group one after another, in the order of the calls; takes the arguments of `Executor`.

    Each begins when its members' parts are ready and the one before has ended, whenever that will be.
    """

    @abstractmethod
    def carry(self, communicator: Communicator, op: Collective, done: Callback) -> None:
        """Carry out a collective from now on, and call `done` at its end."""

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Let it wait for its turn."""
        communicator = self.communicator(meeting.op.group)
        communicator.queue.append(meeting)
        if not communicator.busy:
            self._next(communicator)

    def _next(self, communicator: Communicator) -> None:
        meeting = communicator.queue.popleft()
        communicator.busy = True
        if meeting.ready_s > self.env._now:
            At(self.env, meeting.ready_s, lambda _: self._run(communicator, meeting))
        else:
            self._run(communicator, meeting)

    def _run(self, communicator: Communicator, meeting: Meeting) -> None:
        op, started_s = meeting.op, self.env._now

        def done(_: Event) -> None:
            communicator.busy = False
            for hook in self.probes.operation:
                hook(op, started_s, self.env._now)
            meeting.event.succeed()
            if communicator.queue:
                self._next(communicator)

        self.carry(communicator, op, done)
