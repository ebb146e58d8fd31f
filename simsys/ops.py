"""Operations: WHAT a framework module requests, without durations. Pure data.

Operations are never changed, and compared by identity: each is built once and started as often as needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from simsys.collectives.base import CollectiveKind
from simsys.model.batch import Batch
from simsys.model.work import Work
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """Kernels on the GPU of one rank."""

    rank: int
    work: Work
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """One rank's part in a collective of a group; `nbytes` is the full buffer, as nccl-tests counts."""

    rank: int
    kind: CollectiveKind
    group: Group
    nbytes: float
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Overlapped:
    """A computation and a collective that start together; done when both are."""

    compute: Compute
    collective: Collective

    @property
    def rank(self) -> int:
        """The rank that does both."""
        return self.compute.rank

    @property
    def name(self) -> str:
        """Purpose of the computation."""
        return self.compute.name


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """A message to another rank; done when its last byte has arrived."""

    rank: int
    dst: int
    nbytes: float
    tag: Hashable
    name: str

    def of(self, micro_batch: Hashable) -> Send:
        """The message of one micro-batch, if this belongs to a pass."""
        return Send(self.rank, self.dst, self.nbytes, (self.tag, micro_batch), self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Recv:
    """The wait for a message from another rank."""

    rank: int
    src: int
    tag: Hashable
    name: str

    def of(self, micro_batch: Hashable) -> Recv:
        """The wait for the message of one micro-batch, if this belongs to a pass."""
        return Recv(self.rank, self.src, (self.tag, micro_batch), self.name)


class HostChannel(StrEnum):
    """Work of a rank's host, in order on each channel."""

    TO_HOST = "to_host"
    FROM_HOST = "from_host"
    UPDATE = "update_on_host"


@dataclass(frozen=True, slots=True, eq=False)
class HostWork:
    """Bytes that go to the host of a rank or come from it, or that its processors read and write there."""

    rank: int
    channel: HostChannel
    nbytes: float
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """Allocation of memory on a rank's GPU, added to the allocations of the same name."""

    rank: int
    nbytes: float
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Release of memory by name: a number of bytes, or all (None)."""

    rank: int
    nbytes: float | None
    name: str


# Not frozen: one is made for every pass, and a frozen one takes three times as long to make.
@dataclass(slots=True, eq=False)
class Forward:
    """One pass of a batch over a model (or pipeline stage), on all ranks of a serving team in lockstep.

    Args:
        team: The ranks, as one group.
        plan: Segments of the model with the collectives between them.
        batch: The batch of the pass.
        host_s: Host time (scheduling, sampling) before the first kernel.
        name: Such as ``decode``.
    """

    team: Group
    plan: ForwardPass
    batch: Batch
    host_s: float
    name: str

    @property
    def rank(self) -> int:
        """The first rank of the team, for observers."""
        return self.team.ranks[0]


@dataclass(frozen=True, slots=True, eq=False)
class Pipelined:
    """One pass of a batch through the stages of a pipeline, one after another.

    A stage is free for the next batch as soon as this one has left it. Each rank of a stage sends one part of the
    hidden states to the rank at its place in the next stage.

    Args:
        passes: The passes over the stages; the first may have host time before it.
        parts: Into how many parts the hidden states are divided.
    """

    passes: tuple[Forward, ...]
    parts: int

    @property
    def rank(self) -> int:
        """The first rank of the first stage, for observers."""
        return self.passes[0].rank

    @property
    def name(self) -> str:
        """Purpose of the pass."""
        return self.passes[0].name

    def transfers(self, stage: int) -> tuple[tuple[int, int], ...]:
        """Source and destination of the messages between stages."""
        here, there = self.passes[stage].team, self.passes[stage + 1].team
        return tuple(zip(here.ranks, there.ranks, strict=True))

    def elements(self, stage: int) -> float:
        """Elements that each rank of a stage hands on."""
        passed = self.passes[stage]
        return passed.batch.tokens * passed.plan.output_elements_per_token / self.parts


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Messages from the ranks of a serving team to the ranks of another, independent of their computation.

    Each rank sends to the rank at its place. If one team is a multiple of the other, each rank of the smaller one
    exchanges with several neighbours of the larger one, which have parts of its data.

    Args:
        source: The ranks that send.
        target: The ranks that receive.
        nbytes: Bytes of each message.
        name: Purpose of the message.
    """

    source: Group
    target: Group
    nbytes: float
    name: str

    @property
    def rank(self) -> int:
        """The first rank that sends, for observers."""
        return self.source.ranks[0]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Source and destination of every message."""
        return _pairs(self.source, self.target)


@lru_cache(maxsize=4096)
def _pairs(source: Group, target: Group) -> tuple[tuple[int, int], ...]:
    """The ranks of two groups; ranks of the smaller group are repeated."""
    size = max(source.size, target.size)
    here, there = ([rank for rank in group.ranks for _ in range(size // group.size)] for group in (source, target))
    return tuple(zip(here, there, strict=True))


PassOperation = Compute | Collective | Overlapped
"""Operations of a pass of a program."""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """The work of a `Program` on a micro-batch: wait for a message, run operations, send a message.

    It is one object for all micro-batches; the tag of a message of micro-batch i is ``(tag, i)``.

    Args:
        run: Computations and collectives, alone or side by side.
        receive: The message it waits for, or None.
        send: The message sent at its end, or None.
        takes: Memory allocated at its beginning.
        gives: Memory freed at its end.
        waits: True if it waits for the delivery of its message.
    """

    run: tuple[PassOperation, ...]
    receive: Recv | None = None
    send: Send | None = None
    takes: tuple[Allocate, ...] = ()
    gives: tuple[Release, ...] = ()
    waits: bool = False

    @property
    def collectives(self) -> Iterator[Collective]:
        """The collectives among its operations, alone or overlapped with a computation."""
        for op in self.run:
            if not isinstance(op, Compute):
                yield op if isinstance(op, Collective) else op.collective


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A planned sequence of passes of one rank; all ranks of the group run their programs concurrently.

    Args:
        rank: The rank.
        group: The ranks that exchange messages, such as a pipeline.
        passes: The passes of the rank, in order; equal passes are the same object.
        micro_batches: For each of them, the micro-batch that it processes.
        name: Such as ``micro-batches``.
    """

    rank: int
    group: Group
    passes: tuple[Pass, ...]
    micro_batches: tuple[Hashable, ...]
    name: str


Operation = (
    Compute
    | Collective
    | Overlapped
    | Send
    | Recv
    | HostWork
    | Allocate
    | Release
    | Forward
    | Pipelined
    | Transfer
    | Program
)
