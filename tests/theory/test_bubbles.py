"""The share of pipeline bubbles is that of theory, on every stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from simsys.collectives.choose import named
from simsys.executors import LEVELS
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.iterations.training_loop import Phase, TrainingLoop
from simsys.framework import FRAMEWORKS, DataParallel, Schedule, TrainingFramework
from simsys.metrics.collector import TrainingMetrics
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.plan import TrainingPlan
from simsys.platform.platform import Platform
from simsys.platform.topology import full_mesh
from simsys.probes import Probes
from simsys.rank import Rank
from simsys.testing.toys import toy_device
from tests.helpers.toys import BANDWIDTH, LATENCY, work_of
from tests.helpers.training_toys import block_of

FORWARD_S, BACKWARD_S, OPTIMIZER_S = 1.0, 2.0, 0.25
ITERATIONS = 3
PARTS = ("compute_s", "exposed_pipeline_s", "bubble_s", "idle_s")


def ranks(
    level: str,
    schedule: str,
    stages: int,
    micro_batches: int,
    *,
    chunks: int = 1,
    nbytes: float = 0.0,
    split: bool = False,
    data_parallel: str = "none",
    chunk_s: float = FORWARD_S,
) -> Mapping[str, Sequence[Any]]:
    """What the time of every stage is spent on; a micro-batch takes as long on each, messages of 0 bytes take none."""
    topology = full_mesh(stages, BANDWIDTH, LATENCY if nbytes else 0.0)
    platform, layout = Platform([toy_device()] * stages, topology), Layout(pipeline=stages)
    collector = TrainingMetrics(
        0,
        stages={rank: rank for rank in range(stages)},
        samples_per_iteration=1.0,
        tokens_per_sample=1.0,
        model_flop_per_iteration=1.0,
        hardware_flop_per_iteration=1.0,
        executed_flop_per_iteration=1.0,
        num_gpus=1.0,
        peak_flop_per_s=1.0,
    )
    executor = LEVELS[level](platform, ExecutionModel(named("ring"), Precision()), layout.roles(), Probes([collector]))
    block = block_of(1.0, forward_s=chunk_s / chunks, backward_s=BACKWARD_S / chunks, split=split)
    sizes = (nbytes,) * chunks
    plan = TrainingPlan(((block,),) * chunks, micro_batches, work_of(OPTIMIZER_S), sizes, sizes)
    module, training = FRAMEWORKS.get(data_parallel, DataParallel), FRAMEWORKS.get("training", TrainingFramework)
    order = FRAMEWORKS.get(schedule, Schedule)()

    def frameworks() -> Iterator[TrainingFramework]:
        for index in executor.ranks():
            rank = Rank(index, layout, executor)
            yield training(rank, plan, module(rank, plan, module.Options()), order)

    loop = TrainingLoop(executor, list(frameworks()), [Phase(0, (plan,) * stages)])
    platform.env.process(loop.run(ITERATIONS, repeatable=False))
    platform.env.run()
    executor.check_finished()
    return collector.ranks()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("data_parallel", ["none", "fsdp"])  # passes of the one are planned, of the other not
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (4, 4), (4, 9), (8, 8)])
def test_the_bubble_of_gpipe_and_1f1b_is_p_minus_1_over_m(
    level: str, data_parallel: str, schedule: str, stages: int, micro_batches: int
) -> None:
    """Of the ideal time of the micro-batches: Huang et al. 2019, §2.3; Narayanan et al. 2021, §2.2.1."""
    found = ranks(level, schedule, stages, micro_batches, data_parallel=data_parallel)
    ideal_s = micro_batches * (FORWARD_S + BACKWARD_S)
    assert found["compute_s"] == pytest.approx([ideal_s + OPTIMIZER_S] * stages)
    shares = [bubble_s / ideal_s for bubble_s in found["bubble_s"]]
    assert shares == pytest.approx([(stages - 1) / micro_batches] * stages, rel=1e-9)
    assert found["idle_s"] == [0.0] * stages
    assert found["rank"] == found["stage"] == list(range(stages))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("stages", "micro_batches", "chunks"), [(2, 4, 2), (4, 4, 3), (4, 8, 2)])
def test_interleaving_divides_the_bubble_by_the_chunks(
    level: str, stages: int, micro_batches: int, chunks: int
) -> None:
    """(p-1)/(v·m): Narayanan et al. 2021, §2.2.2."""
    found = ranks(level, "interleaved", stages, micro_batches, chunks=chunks)
    ideal_s = micro_batches * (FORWARD_S + BACKWARD_S)
    shares = [bubble_s / ideal_s for bubble_s in found["bubble_s"]]
    assert shares == pytest.approx([(stages - 1) / (chunks * micro_batches)] * stages, rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_weights_put_off_leave_a_third_of_the_bubble(level: str) -> None:
    """(p-1)(t_F + t_B - t_W), all equally long: Qi et al. 2023, table 2."""
    stages, micro_batches = 4, 12
    found = ranks(level, "zero_bubble", stages, micro_batches, split=True, chunk_s=BACKWARD_S)
    assert found["bubble_s"] == pytest.approx([(stages - 1) * BACKWARD_S] * stages)


@pytest.mark.parametrize("level", LEVELS)
def test_messages_under_way_are_exposed_communication_and_not_part_of_the_bubble(level: str) -> None:
    """GPipe's last stage waits for p - 1 hops of the first micro-batch, the first for as many of the last gradient."""
    stages, micro_batches, nbytes = 4, 6, 5e9
    hop_s = nbytes / BANDWIDTH + LATENCY
    found = ranks(level, "gpipe", stages, micro_batches, nbytes=nbytes)
    ideal_s = micro_batches * (FORWARD_S + BACKWARD_S)
    whole_s = ideal_s + (stages - 1) * (FORWARD_S + BACKWARD_S + 2 * hop_s) + OPTIMIZER_S
    sums = [sum(found[name][stage] for name in found if name in PARTS) for stage in range(stages)]
    assert sums == pytest.approx([whole_s] * stages)
    assert found["idle_s"] == [0.0] * stages
    for stage in range(1, stages - 1):
        assert found["exposed_pipeline_s"][stage] == pytest.approx(3 * hop_s)  # in, back, and its own last gradient
    assert found["exposed_pipeline_s"][0] == pytest.approx(hop_s)
    assert found["exposed_pipeline_s"][-1] == pytest.approx(2 * hop_s)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (4, 12), (8, 16)])
def test_dualpipe_s_bubble_is_at_most_the_published_one(level: str, stages: int, micro_batches: int) -> None:
    """Results leave after each pass of a pair, not after both: half of (p/2-1)(F&B + B - 3W), all equally long."""
    found = ranks(level, "dualpipe", stages, micro_batches, chunks=2, split=True, chunk_s=BACKWARD_S)
    each_s = BACKWARD_S / 2
    assert found["compute_s"] == pytest.approx([micro_batches * 3 * each_s + OPTIMIZER_S] * stages)
    assert found["bubble_s"] == pytest.approx([(stages / 2 - 1) * (3 + 2 - 3) * each_s / 2] * stages)
