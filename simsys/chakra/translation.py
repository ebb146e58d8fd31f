"""From the records of a run to nodes of Chakra traces."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence

from simsys.chakra.nodes import (
    COMM_DST,
    COMM_SIZE,
    COMM_SRC,
    COMM_TAG,
    COMM_TYPE,
    COMM_TYPES,
    DURATION_S,
    IS_CPU_OP,
    NBYTES,
    NUM_OPS,
    PART_OF,
    PG_AXIS,
    PG_NAME,
    TENSOR_SIZE,
    ChakraNode,
    NodeType,
    Value,
)
from simsys.chakra.recorder import RankRecord, RecordedNode
from simsys.collectives.base import CollectiveKind
from simsys.ops import Collective, Compute, HostChannel, HostWork, Recv, Send
from simsys.parallel.layout import Group

Groups = Mapping[str, Sequence[int]]
"""Ranks of each process group, by name."""

MICROS = 1e6
"""Microseconds of a second."""


class Shared:
    """What traces of several ranks have in common: names of process groups, numbers of tags, sizes of messages.

    Args:
        records: The records of all ranks.
    """

    def __init__(self, records: Iterable[RankRecord]) -> None:
        self.groups: dict[str, tuple[int, ...]] = {}
        self._sizes: dict[Hashable, deque[float]] = {}
        for op in (node.op for record in records for node in record.nodes):
            if isinstance(op, Send):
                self._sizes.setdefault((op.rank, op.dst, op.tag), deque()).append(op.nbytes)
        self._names: dict[Group, str] = {}
        self._tags: dict[Hashable, int] = {}
        self._next: Counter[tuple[int, int]] = Counter()

    def name(self, group: Group) -> str:
        """The name of a group: a number from 1, since ASTRA-sim refuses others."""
        if group not in self._names:
            name = self._names[group] = str(len(self._names) + 1)
            self.groups[name] = group.ranks
        return self._names[group]

    def received_bytes(self, op: Recv) -> float:
        """Bytes of the next message that a rank waits for; 0 if it is sent in another iteration."""
        sizes = self._sizes.get((op.src, op.rank, op.tag))
        return sizes.popleft() if sizes else 0.0

    def tag(self, src: int, dst: int, what: Hashable) -> int:
        """The number of a tag between two ranks."""
        key = src, dst, what
        if key not in self._tags:
            self._tags[key] = self._next[src, dst]
            self._next[src, dst] += 1
        return self._tags[key]


class Translation:
    """The nodes of one rank.

    Args:
        rank: The rank.
        record: Its operations.
        started_s: When the iteration began.
        shared: Groups and tags of all ranks.
    """

    def __init__(self, rank: int, record: RankRecord, started_s: float, shared: Shared) -> None:
        self._rank, self._started_s, self._shared = rank, started_s, shared
        self._exchanges: Counter[Group] = Counter()
        self._ids: dict[int, tuple[int, ...]] = {}
        self.nodes: list[ChakraNode] = []
        for each in record.nodes:
            self._add(each)

    def _add(self, recorded: RecordedNode) -> None:
        op = recorded.op
        deps = tuple(number for place in recorded.deps for number in self._ids[place])
        if isinstance(op, Collective) and op.kind is CollectiveKind.SEND_RECV:
            self._ids[recorded.place] = self._exchange(op, recorded, deps)
        elif op is None:
            seconds = recorded.ended_s - recorded.started_s
            self._ids[recorded.place] = (self._node("data loading", NodeType.COMP, recorded, deps, _cpu(seconds)),)
        else:
            kind, values = self._described(op, recorded)
            self._ids[recorded.place] = (self._node(op.name, kind, recorded, deps, values),)

    def _node(
        self, name: str, kind: NodeType, recorded: RecordedNode, deps: tuple[int, ...], values: Mapping[str, Value]
    ) -> int:
        """Add a node; return its number. All dependencies are of data, since some readers know no others."""
        node = ChakraNode(
            id=len(self.nodes),
            name=name,
            type=kind,
            data_deps=deps,
            start_micros=round((recorded.started_s - self._started_s) * MICROS),
            duration_micros=round((recorded.ended_s - recorded.started_s) * MICROS),
            attributes=values,
        )
        self.nodes.append(node)
        return node.id

    def _described(
        self, op: Compute | Collective | Send | Recv | HostWork, recorded: RecordedNode
    ) -> tuple[NodeType, dict[str, Value]]:
        if isinstance(op, Compute):
            sizes: dict[str, Value] = {NUM_OPS: round(op.work.flop), TENSOR_SIZE: round(op.work.nbytes)}
            seconds = recorded.ended_s - recorded.started_s
            return NodeType.COMP, {IS_CPU_OP: False, **sizes, DURATION_S: seconds}
        if isinstance(op, HostWork):
            return self._host_work(op, recorded)
        if isinstance(op, Collective):
            size = op.nbytes / op.group.size if op.kind is CollectiveKind.ALL_GATHER else op.nbytes
            named: dict[str, Value] = {COMM_TYPE: int(COMM_TYPES[op.kind]), **self._group(op.group)}
            return NodeType.COMM_COLL, {IS_CPU_OP: False, **named, COMM_SIZE: round(size), NBYTES: op.nbytes}
        src, dst = (op.rank, op.dst) if isinstance(op, Send) else (op.src, op.rank)
        ends = self._ends(src, dst, self._shared.tag(src, dst, op.tag))
        nbytes = op.nbytes if isinstance(op, Send) else self._shared.received_bytes(op)
        kind = NodeType.COMM_SEND if isinstance(op, Send) else NodeType.COMM_RECV
        return kind, {**ends, COMM_SIZE: round(nbytes), NBYTES: nbytes}

    def _host_work(self, op: HostWork, recorded: RecordedNode) -> tuple[NodeType, dict[str, Value]]:
        if op.channel is HostChannel.UPDATE:
            return NodeType.COMP, {**_cpu(recorded.ended_s - recorded.started_s), TENSOR_SIZE: round(op.nbytes)}
        kind = NodeType.MEM_STORE if op.channel is HostChannel.TO_HOST else NodeType.MEM_LOAD
        return kind, {IS_CPU_OP: False, TENSOR_SIZE: round(op.nbytes), NBYTES: op.nbytes}

    def _exchange(self, op: Collective, recorded: RecordedNode, deps: tuple[int, ...]) -> tuple[int, int]:
        """A send-receive as two nodes, each with the process group, so that a replay joins them again."""
        ranks, count = op.group.ranks, self._exchanges[op.group]
        self._exchanges[op.group] += 1
        place = ranks.index(self._rank)
        after, before = ranks[(place + 1) % len(ranks)], ranks[place - 1]
        sizes: dict[str, Value] = {COMM_SIZE: round(op.nbytes), NBYTES: op.nbytes}
        joined: dict[str, Value] = {**sizes, **self._group(op.group), PART_OF: len(self.nodes)}
        numbers = []
        for kind, src, dst in (
            (NodeType.COMM_SEND, self._rank, after),
            (NodeType.COMM_RECV, before, self._rank),
        ):
            tag = self._shared.tag(src, dst, (op.group, count))
            numbers.append(self._node(op.name, kind, recorded, deps, {**self._ends(src, dst, tag), **joined}))
        return numbers[0], numbers[1]

    def _group(self, group: Group) -> dict[str, Value]:
        return {PG_NAME: self._shared.name(group), PG_AXIS: group.axis}

    def _ends(self, src: int, dst: int, tag: int) -> dict[str, Value]:
        return {IS_CPU_OP: False, COMM_SRC: src, COMM_DST: dst, COMM_TAG: tag}


def _cpu(seconds: float) -> dict[str, Value]:
    return {IS_CPU_OP: True, DURATION_S: seconds}
