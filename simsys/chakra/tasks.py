"""Tasks of a replay: what each node of a trace does, and what it waits for."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from simsys.chakra.nodes import ChakraNode, RankTrace
from simsys.collectives.base import CollectiveKind
from simsys.ops import HostChannel
from simsys.parallel.layout import Group


@dataclass(frozen=True, slots=True)
class GpuWork:
    """A computation on the GPU, with its FLOP and its bytes of memory traffic if they are known (else 0)."""

    duration_s: float
    flop: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class CpuWork:
    """Work on the host, one after another."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between GPU and host."""

    channel: HostChannel
    nbytes: float


@dataclass(frozen=True, slots=True)
class Join:
    """A collective of a group, with the full buffer as nccl-tests counts."""

    kind: CollectiveKind
    group: Group
    nbytes: float


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A message to another rank."""

    dst: int
    nbytes: float
    tag: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The wait for a message from another rank."""

    src: int
    tag: int


Action = GpuWork | CpuWork | Copy | Join | Dispatch | Receipt | None
"""What a node does; None if it only orders others."""


@dataclass(slots=True)
class Task:
    """A node of a trace in a replay.

    Args:
        node: The node.
        action: What it does.
        needs: Places of the tasks that must have ended before, in the tasks of the rank.
        follows: Place of the task of its stream that must have begun before; None if there is none.
    """

    node: ChakraNode
    action: Action
    needs: set[int] = field(default_factory=set)
    follows: int | None = None

    @property
    def before(self) -> set[int]:
        """Places of all tasks that come before it."""
        return self.needs if self.follows is None else self.needs | {self.follows}


@dataclass(frozen=True)
class RankTasks:
    """The tasks of one rank.

    Args:
        trace: Its trace.
        tasks: In the order of the file.
    """

    trace: RankTrace
    tasks: list[Task]

    def place(self, index: int) -> str:
        """The file and the node of a task, for messages."""
        return place_of(self.trace, self.tasks[index].node)


def place_of(trace: RankTrace, node: ChakraNode) -> str:
    """The file and the number and name of a node."""
    return f"{trace.source}: node {node.id} ({node.name!r})"


Stream = Hashable
"""What carries out tasks of a rank one after another: a group, or a channel of the host."""


def stream_of(action: Action) -> Stream | None:
    """The stream of an action whose order all ranks must agree on, or that the host keeps; None if it has none."""
    if isinstance(action, Join):
        return action.group
    return action.channel if isinstance(action, Copy) else None
