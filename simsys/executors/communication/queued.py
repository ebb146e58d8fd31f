"""Collectives that end with their transfers: collectives of a group queue for its communication stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.communicator import Communicator
from simsys.executors.meeting import Meeting, Part, Turn
from simsys.ops import Collective
from simsys.platform.events import At


class QueuedCollectives(Communication):
    """Runs the collectives of a group one after another, in the order of the calls; arguments as of `Component`.

    Each begins when its members' parts are ready and the one before has ended, whenever that will be. Mirrors that are
    not in lockstep with the group have streams of their own; the collective has ended when the last of them has.
    """

    @abstractmethod
    def parts(self, communicator: Communicator, op: Collective) -> Sequence[Part]:
        """The recurring collective of the group and its mirrors."""

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Let it wait for its turn."""
        self.queue(Turn(meeting.op, meeting.ready_s, meeting.event.succeed))

    def queue(self, turn: Turn) -> None:
        """Carry out a collective when its turn has come."""
        communicator = self.communicator(turn.op.group)
        communicator.turns.append(turn)
        if turn.ready_s > self.env._now:
            At(self.env, turn.ready_s, lambda _: self._proceed(communicator))
        else:
            self._proceed(communicator)

    def _proceed(self, communicator: Communicator) -> None:
        """Start all possible parts: the parts of mirrors that have ended the previous turns."""
        turns, now = communicator.turns, self.env._now
        if len(turns) == 1:  # as below: most collectives are alone
            (turn,) = turns
            if turn.waiting is None:
                if turn.ready_s > now:
                    return
                self._begin(communicator, turn)
            parts, turn.waiting = turn.waiting or [], []
            for part in parts:
                self._start(communicator, turn, part)
            return
        busy = set[int]()
        for turn in tuple(turns):
            if turn.waiting is None:
                if turn.ready_s > now or busy.issuperset(communicator.links.shifts):
                    return
                self._begin(communicator, turn)
                assert turn.waiting is not None
            for part in [each for each in turn.waiting if busy.isdisjoint(each[0])]:
                turn.waiting.remove(part)
                self._start(communicator, turn, part)
            if len(turns) > 1:
                busy.update(*[shifts for shifts, _ in turn.left])

    def _begin(self, communicator: Communicator, turn: Turn) -> None:
        """Prepare the parts of a turn that begins now."""
        turn.started_s = self.env._now
        turn.left = list(self.parts(communicator, turn.op))
        turn.waiting = turn.left.copy()

    def _start(self, communicator: Communicator, turn: Turn, part: Part) -> None:
        def done(_: Event) -> None:
            turn.left.remove(part)
            if not turn.left:
                communicator.turns.remove(turn)
                for hook in self.probes.operation:
                    hook(turn.op, turn.started_s, self.env._now)
            if communicator.turns:
                self._proceed(communicator)
            if not turn.left:
                turn.ended()

        part[1](done)
