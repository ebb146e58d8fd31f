"""Runs of small programs on a toy device, at a level of detail."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simsys.collectives.choose import named
from simsys.executors import LEVELS, Executor
from simsys.executors.execution_model import ExecutionModel
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel, Precision, Work
from simsys.ops import Operation
from simsys.parallel.layout import Layout
from simsys.platform.platform import Platform
from simsys.platform.topology import Topology, full_mesh
from simsys.probes import Probe, Probes
from simsys.rank import Rank
from simsys.testing.toys import toy_device

BANDWIDTH, LATENCY = 50e9, 500e-9
"""Of every link, in bytes/s and s."""

TOY = toy_device()
"""1 TFLOP/s, 100 GB/s, 10 GB; every kernel reaches its peak."""

Program = Callable[[Rank], Generator[Any, Any, None]]


def work_of(seconds: float, *, layers: float = 0.0) -> Work:
    """Work that takes this long on the toy device."""
    kernel = Kernel(OperatorKind.GEMM, flop=seconds * TOY.peak_flop_per_s["bf16"], nbytes=0.0, rows=1.0)
    return Work((kernel,), layers=layers)


@dataclass
class Log(Probe):
    """Everything that a run told its probes."""

    operations: list[tuple[Operation, float, float]] = field(default_factory=list)
    memory_in_use: list[tuple[int, float, float]] = field(default_factory=list)
    marks: list[tuple[int, str, float]] = field(default_factory=list)

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        self.operations.append((op, started_s, ended_s))

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        self.memory_in_use.append((rank, in_use_bytes, now_s))

    def mark(self, rank: int, name: str, now_s: float) -> None:
        self.marks.append((rank, name, now_s))

    def spans(self, rank: int, name: str) -> list[tuple[float, float]]:
        """Start and end of the operations of one rank with this name."""
        return [(start, end) for op, start, end in self.operations if op.rank == rank and op.name == name]


@dataclass
class Run:
    """A finished run: when each simulated rank had finished its program, and what was left behind."""

    ends_s: dict[int, float]
    log: Log
    platform: Platform
    executor: Executor

    @property
    def end_s(self) -> float:
        return max(self.ends_s.values())


def simulate(
    level: str,
    program: Program,
    layout: Layout,
    *,
    topology: Topology | None = None,
    algorithm: str = "ring",
    roles: Sequence[Sequence[int]] | None = None,
    per_layer_s: float = 0.0,
    communication_share: float = 0.0,
    probes: Iterable[Probe] | None = None,
) -> Run:
    """Run `program` on every rank that the level of detail simulates; a full mesh unless told otherwise."""
    if topology is None:
        topology = full_mesh(layout.world_size, BANDWIDTH, LATENCY)
    platform = Platform([TOY] * topology.num_gpus, topology)
    log, ends_s = Log(), dict[int, float]()
    executor = LEVELS[level](
        platform,
        ExecutionModel(named(algorithm), Precision(), per_layer_s, communication_share=communication_share),
        layout.roles() if roles is None else roles,
        Probes([log] if probes is None else probes),
    )

    def process(rank: Rank) -> Generator[Any, Any, None]:
        yield from program(rank)
        ends_s[rank.index] = rank.now

    for index in executor.ranks():
        executor.run(index, process(Rank(index, layout, executor)))
    platform.env.run()
    executor.check_finished()
    return Run(ends_s, log, platform, executor)
