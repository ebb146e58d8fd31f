"""Recording without hardware and time: every operation is recorded and ends immediately.

So a test reads the operations of a framework module as a list of plain dicts, and compares it with a golden file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.collectives.base import CollectiveKind
from simsys.errors import InternalError, UsageError
from simsys.executors.communication.base import Communication, Exchange
from simsys.executors.communicator import Communicator
from simsys.executors.computation import Stepwise
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Combination, Executor
from simsys.executors.meeting import Meeting
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.ops import (
    Allocate,
    Collective,
    Compute,
    Forward,
    HostWork,
    Operation,
    Overlapped,
    Pipelined,
    Program,
    Recv,
    Release,
    Send,
    Transfer,
)
from simsys.platform.events import Callback
from simsys.platform.platform import Platform
from simsys.probes import Probes


class _NoTransfers(Communication):
    """Transfers have zero duration, once their partners are present."""

    contention = "none (no time)"

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Ends at once, since all members have joined."""
        meeting.event.succeed()

    def send(self, op: Send) -> Event:
        """Arrives at once; the receiver may wait for it before or after."""
        return self.mail.event(op.rank, op.dst, op.tag, receiving=False).succeed(self.env.now)

    def transfer(self, op: Transfer) -> Event:
        """Fire immediately."""
        return self.env.done

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Fire immediately."""
        arrived(self.env.done)

    def exchange(self, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> Exchange:
        """Refuse: passes have no segments here."""
        raise InternalError("passes of zero duration have no segments")


class _NoComputation(Stepwise):
    """Computations have zero duration."""

    def compute(self, op: Compute) -> Event:
        """Fire immediately."""
        return self.env.done


class _NoPasses(ServingPasses):
    """Passes have zero duration."""

    def forward(self, op: Forward) -> Event:
        """Fire immediately."""
        return self.env.done

    def pipelined(self, op: Pipelined) -> Event:
        """Fire immediately."""
        return self.env.done


class Recording(Executor):
    """Records operations in order; collectives and messages still wait for their partners.

    Args:
        platform: The ranks' devices, of which only the memory is used.
        model: Not used; every executor has it.
        roles: Sets of ranks with equal work; here every rank runs a process.
        probes: Observers; no operation is reported, since durations are zero.
        max_operations: Number of operations after which the module counts as endless.
    """

    def __init__(
        self,
        platform: Platform,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes | None = None,
        *,
        max_operations: int = 100_000,
    ) -> None:
        super().__init__(Combination(_NoComputation, _NoTransfers, _NoPasses), platform, model, roles, probes)
        self.operations: list[dict[str, Any]] = []
        """The recorded operations, in order."""
        self.max_operations = max_operations

    def start(self, op: Operation) -> Event:
        """Write an operation down and end it, as soon as its partners are there.

        Raises:
            UsageError: If there have been `max_operations` already.
        """
        if isinstance(op, Program | Overlapped):
            return super().start(op)  # which starts its operations one by one
        if len(self.operations) >= self.max_operations:
            raise UsageError(f"no end after {self.max_operations} operations; the last is {self.operations[-1]}")
        self.operations.append(describe(op))
        return super().start(op)

    def start_after(self, op: Collective | HostWork, event: Event) -> Event:
        """Return immediately: nothing has a duration."""
        return self.start(op)

    def host_work(self, op: HostWork, after: Event | None = None) -> Event:
        """Fire immediately."""
        return self.env.done


def describe(op: Operation) -> dict[str, Any]:
    """An operation as a plain dict: ``rank``, ``verb``, ``name``, and the fields of the verb.

    Sizes are in bytes and FLOP; ``group`` lists ranks, ``peer`` is the other rank of a message.
    """
    if isinstance(op, Collective):
        return _entry(op, op.kind.value, nbytes=op.nbytes, group=list(op.group.ranks))
    if isinstance(op, Compute):
        return _entry(op, "compute", flop=op.work.flop, nbytes=op.work.nbytes)
    if isinstance(op, Forward):
        batch = op.batch
        return _entry(
            op,
            "forward",
            tokens=batch.tokens,
            logits=batch.logits,
            decode_sequences=batch.decode_sequences,
            decode_context_tokens=batch.decode_context_tokens,
            group=list(op.team.ranks),
        )
    if isinstance(op, Pipelined):
        return _entry(op, "pipelined", passes=[describe(each) for each in op.passes])
    if isinstance(op, Transfer):
        return _entry(op, "transfer", nbytes=op.nbytes, group=list(op.source.ranks), to=list(op.target.ranks))
    if isinstance(op, Send):
        return _entry(op, "send", nbytes=op.nbytes, peer=op.dst, tag=op.tag)
    if isinstance(op, Recv):
        return _entry(op, "recv", peer=op.src, tag=op.tag)
    if isinstance(op, HostWork):
        return _entry(op, op.channel.value, nbytes=op.nbytes)
    if isinstance(op, Allocate):
        return _entry(op, "allocate", nbytes=op.nbytes)
    assert isinstance(op, Release)
    return _entry(op, "release", **({} if op.nbytes is None else {"nbytes": op.nbytes}))


def _entry(op: Operation, verb: str, **details: Any) -> dict[str, Any]:
    return {"rank": op.rank, "verb": verb, "name": op.name, **details}
