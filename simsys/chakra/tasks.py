"""Tasks of a replay: what each node of a trace does, and what it waits for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from simsys.chakra.nodes import ChakraNode, RankTrace
from simsys.collectives.base import CollectiveKind
from simsys.errors import TraceError
from simsys.ops import HostChannel
from simsys.parallel.layout import GROUPS, Group

ALL_RANKS = ""
"""Name of the process group of collectives without one: all ranks."""


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
    """

    node: ChakraNode
    action: Action
    needs: set[int] = field(default_factory=set)


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


class ProcessGroups:
    """The process groups of the traces.

    Args:
        named: Ranks by name.
        source: The file that names them; None if there is none.
        num_ranks: Number of traces.
    """

    def __init__(self, named: Mapping[str, Sequence[int]], source: str | None, num_ranks: int) -> None:
        self._named = {**named, ALL_RANKS: range(num_ranks)}
        self._source = source
        self._groups: dict[str, Group] = {}

    def of(self, rank: int, name: str, axis: str, place: str) -> Group:
        """A group by its name.

        Raises:
            TraceError: If there is no such group, or the rank is not in it.
        """
        if name not in self._named:
            where = "no file with process groups was found" if self._source is None else f"not in {self._source}"
            raise TraceError(f"{place}: unknown process group {name!r} (pg_name): {where}")
        group = self._groups.get(name)
        if group is None:
            axis = axis if axis in GROUPS else "data"
            group = self._groups[name] = Group(tuple(self._named[name]), axis)
        if rank not in group.ranks:
            raise TraceError(f"{place}: rank {rank} is not in its process group {name!r}: {list(group.ranks)}")
        return group


Stream = Hashable
"""What carries out tasks of a rank one after another: a group, or a channel of the host."""


def stream_of(action: Action) -> Stream | None:
    """The stream of an action whose order all ranks must agree on, or that the host keeps; None if it has none."""
    if isinstance(action, Join):
        return action.group
    return action.channel if isinstance(action, Copy) else None
