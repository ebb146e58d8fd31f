"""Reads nodes of traces as tasks of a replay."""

from __future__ import annotations

from collections.abc import Callable

from simsys.chakra.nodes import (
    COMM_DST,
    COMM_SIZE,
    COMM_SRC,
    COMM_TAG,
    COMM_TYPE,
    DURATION_S,
    IS_CPU_OP,
    KINDS,
    NBYTES,
    NUM_OPS,
    PART_OF,
    PG_AXIS,
    PG_NAME,
    TENSOR_SIZE,
    ChakraNode,
    CommType,
    NodeType,
    RankTrace,
    Value,
)
from simsys.chakra.process_groups import ProcessGroups
from simsys.chakra.tasks import (
    Action,
    Copy,
    CpuWork,
    Dispatch,
    GpuWork,
    Join,
    RankTasks,
    Receipt,
    Task,
    place_of,
)
from simsys.collectives.base import BARRIER_BYTES, CollectiveKind
from simsys.errors import TraceError
from simsys.ops import HostChannel
from simsys.parallel.layout import Group

MICRO_S = 1e-6


def tasks_of(trace: RankTrace, groups: ProcessGroups, num_ranks: int, *, ctrl_deps: bool = False) -> RankTasks:
    """The tasks of the trace of a rank.

    Args:
        trace: The trace.
        groups: The process groups of all traces.
        num_ranks: Number of traces.
        ctrl_deps: Whether to follow control dependencies, too.

    Raises:
        TraceError: At the first node that cannot be replayed.
    """
    places: dict[int, int] = {}
    for index, node in enumerate(trace.nodes):
        if node.id in places:
            raise TraceError(f"{place_of(trace, node)}: the id {node.id} is taken by an earlier node")
        places[node.id] = index
    tasks = []
    for node in trace.nodes:
        reader = _NodeReader(trace, node, groups, num_ranks)
        needs = set()
        control = node.ctrl_deps if ctrl_deps else ()
        for dep in (*node.data_deps, *control, *reader.part_of()):
            if dep not in places:
                raise TraceError(f"{reader.place}: it depends on node {dep}, which is not in the file")
            needs.add(places[dep])
        tasks.append(Task(node, reader.action(), needs))
    return RankTasks(trace, tasks)


class _NodeReader:
    """Reads one node.

    Args:
        trace: Its trace.
        node: The node.
        groups: The process groups of all traces.
        num_ranks: Number of traces.
    """

    def __init__(self, trace: RankTrace, node: ChakraNode, groups: ProcessGroups, num_ranks: int) -> None:
        self._rank, self._node, self._groups, self._num_ranks = trace.rank, node, groups, num_ranks
        self.place = place_of(trace, node)

    def part_of(self) -> tuple[int, ...]:
        """For the receiving node of a send-receive: the node that sends, which stands for both."""
        return (self._whole(PART_OF),) if self._node.type == NodeType.COMM_RECV and self._has(PART_OF) else ()

    def action(self) -> Action:
        """What the node does.

        Raises:
            TraceError: If it cannot be replayed, or lacks an attribute.
        """
        readers: dict[int, Callable[[], Action]] = {
            NodeType.METADATA: lambda: None,
            NodeType.COMP: self._computation,
            NodeType.MEM_LOAD: lambda: self._copy(HostChannel.FROM_HOST),
            NodeType.MEM_STORE: lambda: self._copy(HostChannel.TO_HOST),
            NodeType.COMM_SEND: self._dispatch,
            NodeType.COMM_RECV: self._receipt,
            NodeType.COMM_COLL: self._collective,
        }
        read = readers.get(self._node.type)
        if read is None:
            known = {int(each): each.name for each in NodeType}
            name = known.get(self._node.type, "unknown")
            able = ", ".join(f"{NodeType(number).name} ({number})" for number in sorted(readers))
            raise TraceError(f"{self.place}: nodes of type {self._node.type} ({name}) are not replayed; {able} are")
        return read()

    def _computation(self) -> Action:
        if self._node.attributes.get(IS_CPU_OP):
            return CpuWork(self._duration_s())
        return GpuWork(self._duration_s(), self._size(NUM_OPS, 0.0), self._size(TENSOR_SIZE, 0.0))

    def _copy(self, channel: HostChannel) -> Action:
        if self._has(TENSOR_SIZE):
            return Copy(channel, self._exact(TENSOR_SIZE))
        return CpuWork(self._duration_s())

    def _collective(self) -> Action:
        number = self._whole(COMM_TYPE)
        kind = KINDS.get(CommType(number)) if number in list(CommType) else None
        if kind is None:
            known = ", ".join(f"{CommType(each).name} ({int(each)})" for each in sorted(KINDS))
            raise TraceError(f"{self.place}: collectives of comm_type {number} are not simulated; {known} are")
        group = self._group()
        if kind is CollectiveKind.BARRIER:
            return Join(kind, group, BARRIER_BYTES)
        whole = group.size if kind is CollectiveKind.ALL_GATHER else 1
        return Join(kind, group, self._exact(COMM_SIZE, whole))

    def _dispatch(self) -> Action:
        if self._has(PART_OF):
            return Join(CollectiveKind.SEND_RECV, self._group(), self._exact(COMM_SIZE))
        dst, src = self._peer(COMM_DST), self._node.attributes.get(COMM_SRC, self._rank)
        if src != self._rank:
            raise TraceError(f"{self.place}: rank {self._rank} sends as rank {src} ({COMM_SRC})")
        return Dispatch(dst, self._exact(COMM_SIZE), self._tag())

    def _receipt(self) -> Action:
        if self._has(PART_OF):
            return None
        dst = self._node.attributes.get(COMM_DST, self._rank)
        if dst != self._rank:
            raise TraceError(f"{self.place}: rank {self._rank} receives as rank {dst} ({COMM_DST})")
        return Receipt(self._peer(COMM_SRC), self._tag())

    def _group(self) -> Group:
        name, axis = (self._node.attributes.get(each, "") for each in (PG_NAME, PG_AXIS))
        return self._groups.of(self._rank, str(name), str(axis), self.place)

    def _peer(self, attribute: str) -> int:
        peer = self._whole(attribute)
        if not 0 <= peer < self._num_ranks or peer == self._rank:
            raise TraceError(
                f"{self.place}: {attribute} is {peer}; another rank of 0 to {self._num_ranks - 1} is needed"
            )
        return peer

    def _tag(self) -> int:
        return self._whole(COMM_TAG) if self._has(COMM_TAG) else 0

    def _duration_s(self) -> float:
        if self._has(DURATION_S):
            return self._size(DURATION_S, 0.0)
        return self._node.duration_micros * MICRO_S

    def _exact(self, attribute: str, factor: int = 1) -> float:
        """A size in bytes: exact if simsys wrote it, else of the attribute of ASTRA-sim, times a factor."""
        return self._size(NBYTES, 0.0) if self._has(NBYTES) else self._whole(attribute) * float(factor)

    def _has(self, attribute: str) -> bool:
        return attribute in self._node.attributes

    def _whole(self, attribute: str) -> int:
        value = self._node.attributes.get(attribute)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise TraceError(f"{self.place}: {attribute} must be an integer of at least 0; {_found(value)}")
        return value

    def _size(self, attribute: str, default: float) -> float:
        value = self._node.attributes.get(attribute, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise TraceError(f"{self.place}: {attribute} must be a number of at least 0; {_found(value)}")
        return float(value)


def _found(value: Value | None) -> str:
    return "it is missing" if value is None else f"it is {value!r}"
