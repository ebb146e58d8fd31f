"""Training steps of hand-made blocks on the toy device, whose times can be added up by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simsys.collectives import CollectiveKind
from simsys.framework import FRAMEWORKS, DataParallel, Schedule, TrainingFramework
from simsys.model.work import Work
from simsys.parallel.layout import Layout
from simsys.parallel.plan import Block, Part, TrainingPlan
from simsys.rank import Rank
from tests.helpers.toys import BANDWIDTH, LATENCY, Run, simulate, work_of


def block_of(
    parameter_bytes: float,
    *,
    gradient_bytes: float | None = None,
    forward_s: float = 0.0,
    backward_s: float = 0.0,
    tensor_bytes: float = 0.0,
    split: bool = False,
) -> Block:
    """A block that computes so long; gradients are as large as weights unless told otherwise."""
    kind = CollectiveKind.ALL_REDUCE if tensor_bytes else None
    return Block(
        "block",
        forward=(Part(work_of(forward_s), kind, tensor_bytes),),
        backward=(Part(work_of(backward_s), kind, tensor_bytes),),
        gradient_bytes=parameter_bytes if gradient_bytes is None else gradient_bytes,
        weight=(Part(work_of(backward_s)),) if split else (),
        parameter_bytes=parameter_bytes,
    )


def train(
    level: str,
    name: str,
    chunks: Sequence[Sequence[Block]],
    layout: Layout,
    *,
    micro_batches: int = 1,
    schedule: str = "1f1b",
    steps: int = 1,
    algorithm: str = "ring",
    optimizer: Work | None = None,
    host_update_bytes: float = 0.0,
    communication_share: float = 0.0,
    waits_for_sends: bool = False,
    **options: Any,
) -> Run:
    """Run training steps of blocks with a data-parallel module; every pipeline stage has the same chunks."""
    module = FRAMEWORKS.get(name, DataParallel)
    settings = module.Options(**options)
    blocks = tuple(tuple(chunk) for chunk in chunks)
    handed = (1e6,) * len(blocks)
    work = optimizer or Work()
    plan = TrainingPlan(
        blocks,
        micro_batches,
        work,
        handed,
        handed,
        host_update_bytes=host_update_bytes,
        waits_for_sends=waits_for_sends,
    )
    order = FRAMEWORKS.get(schedule, Schedule)()

    def program(rank: Rank) -> Iterator[Any]:
        training = FRAMEWORKS.get("training", TrainingFramework)
        framework = training(rank, plan, module(rank, plan, settings), order)
        for _ in range(steps):
            yield from framework.step()

    return simulate(level, program, layout, algorithm=algorithm, communication_share=communication_share)


def ring_seconds(nbytes: float, ranks: int) -> float:
    """A ring all-gather or reduce-scatter; an all-reduce takes twice as long (Thakur et al. 2005, §4)."""
    return (ranks - 1) * (nbytes / (ranks * BANDWIDTH) + LATENCY)
