"""Nodes of Chakra execution traces as plain data, with the numbers of MLCommons' schema.

Source: mlcommons/chakra, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from simsys.collectives.base import CollectiveKind

Value = bool | int | float | str | Sequence[object]
"""The value of an attribute."""


class NodeType(IntEnum):
    """Types of nodes (``NodeType``)."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CommType(IntEnum):
    """Kinds of collectives (``CollectiveCommType``)."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


COMM_TYPES = {
    CollectiveKind.ALL_REDUCE: CommType.ALL_REDUCE,
    CollectiveKind.REDUCE: CommType.REDUCE,
    CollectiveKind.ALL_GATHER: CommType.ALL_GATHER,
    CollectiveKind.BROADCAST: CommType.BROADCAST,
    CollectiveKind.ALL_TO_ALL: CommType.ALL_TO_ALL,
    CollectiveKind.REDUCE_SCATTER: CommType.REDUCE_SCATTER,
    CollectiveKind.BARRIER: CommType.BARRIER,
}
"""The number of each kind of collective; a send-receive is a node that sends and a node that receives."""

KINDS = {number: kind for kind, number in COMM_TYPES.items()} | {
    CommType.REDUCE_SCATTER_BLOCK: CollectiveKind.REDUCE_SCATTER
}
"""The kind of collective of each number that can be simulated."""

# Attributes of ASTRA-sim and of the converters of Chakra.
IS_CPU_OP, NUM_OPS, TENSOR_SIZE = "is_cpu_op", "num_ops", "tensor_size"
COMM_TYPE, COMM_SIZE, PG_NAME = "comm_type", "comm_size", "pg_name"
COMM_SRC, COMM_DST, COMM_TAG = "comm_src", "comm_dst", "comm_tag"

# Attributes of simsys; other readers pass over them.
DURATION_S = "simsys_duration_s"
"""The exact duration, of which ``duration_micros`` has whole microseconds."""
NBYTES = "simsys_nbytes"
"""The exact bytes of a message, or of the full buffer of a collective."""
PG_AXIS = "simsys_pg_axis"
"""The axis of parallelism of a process group."""
PART_OF = "simsys_part_of"
"""In the nodes of a send-receive: the node that sends."""


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """One node of the trace of a rank.

    Args:
        id: Its number, unique in the trace.
        name: Purpose of the operation.
        type: Its type, as in `NodeType`; other numbers are kept.
        ctrl_deps: Control dependencies; in traces of PyTorch, the calling operators.
        data_deps: Nodes that must have ended before, which is all that feeders of Chakra follow.
        start_micros: When it began in the recorded run, in microseconds.
        duration_micros: How long it lasted, in microseconds.
        attributes: Further values by name.
        values: Text of its inputs, as in nodes of process groups.
    """

    id: int
    name: str
    type: int
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    start_micros: int = 0
    duration_micros: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)
    values: str = ""


@dataclass(frozen=True, slots=True)
class RankTrace:
    """The trace of one rank.

    Args:
        rank: The rank.
        source: The file, or another name for messages.
        version: Version of the schema.
        metadata: Values about the whole trace, by name.
        nodes: Nodes in the order of the file.
    """

    rank: int
    source: str
    version: str
    metadata: Mapping[str, Value]
    nodes: tuple[ChakraNode, ...]
