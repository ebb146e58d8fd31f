"""The vocabulary of work: WHAT a framework module asks for, never how long it takes. Pure data.

Operations are immutable and compared by identity: each is built once and started as often as needed.
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
        """What the computation is for."""
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
        """The message of one micro-batch, where this is that of a pass."""
        return Send(self.rank, self.dst, self.nbytes, (self.tag, micro_batch), self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Recv:
    """The wait for a message from another rank."""

    rank: int
    src: int
    tag: Hashable
    name: str

    def of(self, micro_batch: Hashable) -> Recv:
        """The wait for the message of one micro-batch, where this is that of a pass."""
        return Recv(self.rank, self.src, (self.tag, micro_batch), self.name)


class HostChannel(StrEnum):
    """What a rank's host does for it, one piece of work after another on each channel."""

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
    """Memory taken on a rank's GPU under a name, on top of what the name holds."""

    rank: int
    nbytes: float
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Memory given back by name: so many bytes, or all (None)."""

    rank: int
    nbytes: float | None
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """One pass of a batch over a model (or pipeline stage), on all ranks of a serving team in lockstep.

    Args:
        team: The ranks, as one group.
        plan: Segments of the model with the collectives between them.
        batch: What the pass processes.
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
        """What the pass is for."""
        return self.passes[0].name

    def transfers(self, stage: int) -> tuple[tuple[int, int], ...]:
        """Source and destination of what a stage hands on."""
        here, there = self.passes[stage].team, self.passes[stage + 1].team
        return tuple(zip(here.ranks, there.ranks, strict=True))

    def elements(self, stage: int) -> float:
        """Elements that each rank of a stage hands on."""
        passed = self.passes[stage]
        return passed.batch.tokens * passed.plan.output_elements_per_token / self.parts


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """What the ranks of a serving team send to those of another, whatever both compute meanwhile.

    Each sends to the rank at its place; if one team is a multiple of the other, each of the smaller one exchanges with
    as many neighbours of the larger one, which hold parts of what it holds.

    Args:
        source: The ranks that send.
        target: Those that receive.
        nbytes: Bytes of each message.
        name: What it is for.
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
    """The ranks of two groups, those of the smaller one as often as there are more of the other."""
    size = max(source.size, target.size)
    here, there = ([rank for rank in group.ranks for _ in range(size // group.size)] for group in (source, target))
    return tuple(zip(here, there, strict=True))


PassOperation = Compute | Collective | Overlapped
"""What a pass of a program consists of."""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What a `Program` does with a micro-batch: wait for a message, run operations in turn, send a message.

    It is the same for all micro-batches; the tag of a message of micro-batch i is ``(tag, i)``.

    Args:
        run: Computations and collectives, alone or side by side.
        receive: What it waits for, if anything.
        send: What it sends off at its end.
        takes: Memory taken at its beginning.
        gives: Memory given back at its end.
        waits: Whether it waits for the delivery of what it sends.
    """

    run: tuple[PassOperation, ...]
    receive: Recv | None = None
    send: Send | None = None
    takes: tuple[Allocate, ...] = ()
    gives: tuple[Release, ...] = ()
    waits: bool = False

    @property
    def collectives(self) -> Iterator[Collective]:
        """The collectives among its operations, alone or beside a computation."""
        for op in self.run:
            if not isinstance(op, Compute):
                yield op if isinstance(op, Collective) else op.collective


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Passes of one rank, in order, known beforehand; all ranks of the group run one at the same time.

    Args:
        rank: The rank.
        group: The ranks that exchange the messages, such as those of a pipeline.
        passes: What the rank does, in order; equal passes are the same object.
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
