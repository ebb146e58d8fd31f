"""Phases of a batch schedule, and runs through several of them."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.batches import BatchPhase, batch_phases, mean_over_iterations
from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.config.experiment import SimulationConfig
from simsys.config.training import TrainingConfig
from simsys.executors import LEVELS
from simsys.framework import DataParallel, Event, Rank, TrainingPlan
from simsys.simulation import simulate

Entry = dict[str, int]


def phases(*entries: Entry, iterations: int = 20) -> list[BatchPhase]:
    return batch_phases(
        TrainingConfig(
            batch_size_per_gpu=2, gradient_accumulation_steps=3, num_iterations=iterations, batch_schedule=[*entries]
        )
    )


def test_without_a_schedule_there_is_one_phase() -> None:
    assert phases() == [BatchPhase(0, 20, 2, 3)]


def test_the_plain_settings_hold_before_the_first_entry_and_where_an_entry_is_silent() -> None:
    found = phases(
        {"from_iteration": 5, "gradient_accumulation_steps": 6},
        {"from_iteration": 8, "batch_size_per_gpu": 4},
        {"from_iteration": 10, "gradient_accumulation_steps": 1, "batch_size_per_gpu": 1},
    )
    assert found == [
        BatchPhase(0, 5, 2, 3),
        BatchPhase(5, 3, 2, 6, entry=0),
        BatchPhase(8, 2, 4, 6, entry=1),
        BatchPhase(10, 10, 1, 1, entry=2),
    ]
    assert [phase.samples for phase in found] == [6, 12, 24, 1]


def test_an_entry_from_the_beginning_replaces_the_plain_settings() -> None:
    assert phases({"from_iteration": 0, "batch_size_per_gpu": 7}) == [BatchPhase(0, 20, 7, 3, entry=0)]


def test_a_shorter_run_leaves_phases_out() -> None:
    config = TrainingConfig(
        batch_size_per_gpu=2, num_iterations=20, batch_schedule=[{"from_iteration": 9, "batch_size_per_gpu": 4}]
    )
    assert batch_phases(config.model_copy(update={"num_iterations": 9})) == [BatchPhase(0, 9, 2, 1)]


def test_the_mean_counts_iterations() -> None:
    found = phases({"from_iteration": 5, "batch_size_per_gpu": 4})
    assert mean_over_iterations(found, [1.0, 9.0]) == 7.0


def config(lod: str = "medium", iterations: int = 6, entries: Any = (), **given: Any) -> SimulationConfig:
    """A GPT on GPUs that are joined pairwise, so that no two transfers meet on a link."""
    return SimulationConfig(
        hardware={"gpu": "A100-SXM-80GB", "num_nodes": 4, "gpus_per_node": 1},
        network={"topology_type": "full_mesh"},
        model={"model_type": "gpt", "num_layers": 4, "hidden_size": 256, "num_attention_heads": 4},
        parallelism=given.pop("parallelism", {"strategy": "DDP"}),
        training={
            "batch_size_per_gpu": 1,
            "num_iterations": iterations,
            "communication_pattern": "direct",
            "batch_schedule": [*entries],
            **given,
        },
        simulation={"lod": lod},
    )


GROWING = (
    {"from_iteration": 2, "gradient_accumulation_steps": 4},
    {"from_iteration": 4, "gradient_accumulation_steps": 8, "batch_size_per_gpu": 2},
)
KINDS: dict[str, dict[str, Any]] = {
    "ddp": {"strategy": "DDP"},
    "zero1": {"strategy": "ZERO1"},
    "zero2": {"strategy": "ZERO2"},
    "fsdp": {"strategy": "FSDP"},
    "pipeline": {"pp_stages": 2},
    "tensor": {"tp_degree": 2},
    "interleaved": {"pp_stages": 2, "virtual_stages": 2, "schedule": "interleaved"},
}


@pytest.mark.parametrize("lod", ["high", "medium"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_phase_is_like_a_run_with_its_settings(kind: str, lod: str) -> None:
    first = {"gradient_accumulation_steps": 2, "parallelism": KINDS[kind]}
    ramp = simulate(config(lod, entries=GROWING, **first))
    alone = [
        simulate(config(lod, 2, gradient_accumulation_steps=steps, batch_size_per_gpu=size, parallelism=KINDS[kind]))
        for steps, size in ((2, 1), (4, 1), (8, 2))
    ]
    for name in ("iteration_s", "samples"):
        expected = [value for run in alone for value in run.rows[name]]
        assert list(ramp.rows[name]) == pytest.approx(expected, rel=1e-9, abs=1e-15), name
    for name in (
        "compute_s",
        "optimizer_s",
        "bubble_s",
        "idle_s",
    ):  # of every stage, since each phase may be long in another
        means = [sum(values) / len(alone) for values in zip(*(run.ranks[name] for run in alone), strict=True)]
        assert list(ramp.ranks[name]) == pytest.approx(means, rel=1e-9, abs=1e-15), name
    total_s = sum(run.simulated_s for run in alone)
    assert ramp.simulated_s == pytest.approx(total_s, rel=1e-9)
    for name in ("samples_per_s", "tokens_per_s", "mfu", "hfu"):
        mean = sum(run.metrics[name] * run.simulated_s for run in alone) / total_s  # all samples, FLOP by all time
        assert ramp.metrics[name] == pytest.approx(mean, rel=1e-9), name


@pytest.mark.parametrize("kind", KINDS)
def test_both_levels_of_detail_agree_in_every_phase(kind: str) -> None:
    first = {"gradient_accumulation_steps": 2, "parallelism": KINDS[kind]}
    high, medium = (simulate(config(lod, entries=GROWING, **first)) for lod in ("high", "medium"))
    for name, column in high.rows.items():
        assert list(medium.rows[name]) == pytest.approx(list(column), rel=1e-9, abs=1e-12), name


def test_the_samples_of_every_iteration_are_in_its_row() -> None:
    ramp = simulate(config(entries=GROWING))
    assert ramp.rows["samples"] == [4, 4, 16, 16, 64, 64]
    assert ramp.metrics["samples_per_s"] == pytest.approx(168 / ramp.simulated_s)


def test_memory_is_that_of_the_fullest_phase() -> None:
    def memory(entries: Any = (), size: int = 1) -> dict[str, float]:
        return build_job(config(entries=entries, batch_size_per_gpu=size)).memory_bytes

    shrinking = [{"from_iteration": 1, "batch_size_per_gpu": 8}, {"from_iteration": 2, "batch_size_per_gpu": 1}]
    assert memory(shrinking) == memory(size=8)
    assert memory(size=8)["activations"] == pytest.approx(8 * memory()["activations"])


def test_plans_are_made_once() -> None:
    job: TrainingJob = build_job(config(entries=GROWING))
    assert job.plans is job.plans
    assert [plan.micro_batches for (plan,) in job.plans] == [1, 4, 8]


class EveryThird(DataParallel):
    """Averages the weights after every third step, counted over the whole run."""

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Any) -> None:
        super().__init__(rank, plan, options)
        self.steps = 0

    def finish(self) -> Event | None:
        self.steps += 1
        return None if self.steps % 3 else self.rank.all_reduce(self.plan.gradient_bytes, over="data")


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_a_module_keeps_its_count_through_the_phases(lod: str) -> None:
    rows = simulate(config(lod, entries=GROWING, data_parallel="tests.build.test_batches:EveryThird")).rows
    assert [seconds > 0.0 for seconds in rows["communication_s"]] == [False, False, True, False, False, True]


def test_a_module_sees_the_plan_of_the_phase() -> None:
    seen: list[int] = []

    class Watching(DataParallel):
        def finish(self) -> None:
            seen.append(self.plan.micro_batches)

    job = build_job(config(entries=GROWING, data_parallel="none"))
    vars(job)["data_parallel"] = (Watching, Watching.Options())
    executor = LEVELS["medium"](job.cluster.platform(), job.execution_model(), job.roles())
    job.start(executor)
    executor.env.run()
    assert seen == [1, 1, 4, 4, 8, 8]
