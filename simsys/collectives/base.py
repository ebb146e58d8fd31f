"""The base of collective algorithms: their steps, and the closed form of their time.

The steps are simulated at high, the closed form selects algorithms;
both are in one file per algorithm, and a test checks that they are equal.

Sizes are quoted as nccl-tests does, as the *full* buffer S in bytes (NVIDIA/nccl-tests, doc/PERFORMANCE.md):
all-reduce, broadcast and reduce the message, all-gather the whole output, reduce-scatter the whole input,
all-to-all the whole send buffer of one rank, send-receive what each rank sends, a barrier one number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar

from simsys.errors import UsageError
from simsys.registry import Registry
from simsys.sums import ordered_sum


class CollectiveKind(StrEnum):
    """The collective operations, named as in `torch.distributed`.

    The root of a broadcast or reduce is index 0 of the group. In a send-receive every rank sends to the next one of
    the group and receives from the one before, as in nccl-tests' ``sendrecv``. A barrier is an all-reduce of one
    number, as PyTorch runs it on NCCL, and every algorithm carries it out as such.
    """

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all_to_all"
    SEND_RECV = "send_recv"
    BARRIER = "barrier"


BARRIER_BYTES = 4.0
"""Bytes summed by a barrier."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive equal steps of a collective, in lockstep: a step begins when the previous has ended everywhere.

    Args:
        transfers: (source, destination) pairs, as indexes within the group, concurrent in each step; FIFO links serve
            them in this order.
        fraction: Share of the full buffer that each transfer carries, in (0, 1].
        repeat: Number of such steps in sequence.
        pattern: ``ring``, ``tree``, ``nvls`` or ``collnet``: the row of a tuning model's tables.
    """

    transfers: tuple[tuple[int, int], ...]
    fraction: float
    repeat: int = 1
    pattern: str = "ring"

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise UsageError(f"a phase's transfers carry a fraction in (0, 1] of the buffer, not {self.fraction!r}")
        if self.repeat < 1:
            raise UsageError(f"a phase repeats at least once, not {self.repeat!r} times")


@dataclass(frozen=True, slots=True)
class Span:
    """How a group lies on the nodes of a cluster.

    Args:
        nodes: How many nodes it touches.
        per_node: Its ranks in each node if they are as many in every one, node by node; else 1.
    """

    nodes: int = 1
    per_node: int = 1


@dataclass(frozen=True, slots=True)
class Way:
    """Properties of the transfers of a step for a tuning model.

    Args:
        pattern: The pattern of the phase. crossing: Share of the transfers that leave their node.
        lanes: Concurrent transfers that leave each node; if none does, concurrent transfers per sender.
    """

    pattern: str = "ring"
    crossing: float = 0.0
    lanes: float = 1.0


@dataclass(frozen=True, slots=True)
class Path:
    """The path of a transfer in the latency-bandwidth (alpha-beta) model.

    A path whose slowest link is shared by k transfers of the same step has a k-th of that link's bandwidth.

    Args:
        latency_s: Sum of the link latencies of the path.
        bytes_per_s: Bandwidth of the slowest link; infinite if no bytes are moved.
        way: Further properties of the transfers on this path.
    """

    latency_s: float
    bytes_per_s: float
    way: Way = Way()

    def __post_init__(self) -> None:
        if not 0.0 <= self.latency_s < math.inf:
            raise UsageError(f"a path's latency must be finite and not negative, not {self.latency_s!r} s")
        if not self.bytes_per_s > 0.0:
            raise UsageError(f"a path's bandwidth must be positive, not {self.bytes_per_s!r} bytes/s")

    def seconds(self, nbytes: float) -> float:
        """Time of one transfer of `nbytes`: latency + nbytes / bandwidth."""
        return self.latency_s + nbytes / self.bytes_per_s


class Algorithm(ABC):
    """A way to carry out one or more kinds of collective; stateless.

    A subclass sets `name` and `kinds` and writes `make_phases`; `closed_form` only if there is a cheaper
    way to the same number than adding up the phases.
    """

    name: ClassVar[str]
    kinds: frozenset[CollectiveKind]
    pattern: str = "ring"
    """Pattern of most of its phases."""
    ways_differ: ClassVar[bool] = False
    """Whether transfers of one step have not the same latency, while all wait for the longest."""

    @property
    def label(self) -> str:
        """The name with all parameters of this instance of the algorithm."""
        return self.name

    def for_nodes(self, per_node: int) -> Algorithm:
        """The algorithm for a group with `per_node` ranks in each node; most do not mind."""
        return self

    def variants(self) -> tuple[Algorithm, ...]:
        """The instances to compare for a message, such as with more or fewer chunks."""
        return (self,)

    def suits(self, span: Span) -> bool:
        """Whether a group that lies so on the nodes can use it."""
        return True

    def phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """The steps of a group of `size` ranks; none for a group of one.

        Raises:
            UsageError: The algorithm does not support `kind`, or `size` is less than 1.
        """
        self._check(kind, size)
        return self.make_phases(_summed(kind), size) if size > 1 else ()

    def seconds(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """Time of the collective when nothing else uses the links; 0 for a group of one.

        Args:
            kind: Which collective.
            size: Ranks in the group.
            nbytes: Full buffer in bytes, see the head of this module.
            paths: `paths[i]` is the slowest path of phase i; a single path is used for all phases.

        Raises:
            UsageError: An argument is out of range, or there are neither one path nor one per phase.
        """
        self._check(kind, size)
        if not 0.0 <= nbytes < math.inf:
            raise UsageError(f"a collective's size must be finite and not negative, not {nbytes!r} bytes")
        return self.closed_form(_summed(kind), size, nbytes, paths) if size > 1 else 0.0

    @abstractmethod
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """The steps for a supported `kind` and at least two ranks."""

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """Seconds for a supported `kind` and at least two ranks: by default the sum over the phases."""
        phases = self.make_phases(kind, size)
        each = one_per_phase(paths, len(phases))
        return ordered_sum(
            phase.repeat * path.seconds(phase.fraction * nbytes) for phase, path in zip(phases, each, strict=True)
        )

    def _check(self, kind: CollectiveKind, size: int) -> None:
        if kind not in self.kinds:
            supported = ", ".join(sorted(self.kinds))
            raise UsageError(f"the {self.name} algorithm does not do {str(kind)!r}; it does: {supported}")
        if size < 1:
            raise UsageError(f"a group has at least one rank, not {size!r}")


def _summed(kind: CollectiveKind) -> CollectiveKind:
    """The executed kind: an all-reduce for a barrier."""
    return CollectiveKind.ALL_REDUCE if kind is CollectiveKind.BARRIER else kind


def one_per_phase(paths: Sequence[Path], count: int) -> Sequence[Path]:
    """`paths` for `count` phases, a single path repeated.

    Raises:
        UsageError: There are neither 1 nor `count` paths.
    """
    if len(paths) == count:
        return paths
    if len(paths) == 1:
        return [paths[0]] * count
    raise UsageError(f"{len(paths)} paths were given for {count} phases; give one, or one per phase")


def bytes_sent(phases: Sequence[Phase], nbytes: float) -> float:
    """Bytes that all ranks together send in `phases` of a collective with a full buffer of `nbytes`."""
    return ordered_sum(phase.repeat * len(phase.transfers) * phase.fraction for phase in phases) * nbytes


ALGORITHMS = Registry(
    "collective algorithm",
    "simsys.collectives",
    "simsys.collectives",
    helpers=("bandwidth", "base", "choose", "chunked", "collective_plan", "expert_kernels", "measured_costs", "nccl"),
    aliases={
        "ring_allreduce": "ring",
        "tree_allreduce": "tree",
        "reduce_scatter_allgather": "ring",  # the ring all-reduce is exactly these two, one after the other
    },
)
"""Algorithms by name."""

AlgorithmClass = TypeVar("AlgorithmClass", bound=type[Algorithm])


def register_algorithm(cls: AlgorithmClass) -> AlgorithmClass:
    """Class decorator that makes an algorithm known under its `name`.

    Raises:
        UsageError: Another class has that name already.
    """
    return ALGORITHMS.register(cls.name)(cls)
