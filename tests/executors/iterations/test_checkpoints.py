"""When training goes on after checkpoints, and what they consist of."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.config.experiment import SimulationConfig
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.simulation import simulate


def test_a_write_that_stops_training_is_never_waited_for() -> None:
    checkpoints = Checkpoints(interval=1, stop_s=3.0)
    assert [checkpoints.save(now_s) for now_s in (10.0, 13.0, 20.0)] == [13.0, 16.0, 23.0]


def test_the_next_one_waits_for_a_write_in_the_background() -> None:
    checkpoints = Checkpoints(interval=1, stop_s=1.0, background_s=5.0)
    # at 10 the first is copied, by 11; its write ends at 16, so the second is copied by 17; the third waits for none
    assert [checkpoints.save(now_s) for now_s in (10.0, 12.0, 30.0)] == [11.0, 17.0, 31.0]


def test_one_that_was_told_is_written_too() -> None:
    checkpoints = Checkpoints(interval=1, stop_s=1.0, background_s=5.0)
    checkpoints.saved(20.0)
    assert checkpoints.save(21.0) == 26.0


def job(
    checkpoint: dict[str, Any] | None = None, training: dict[str, Any] | None = None, **parallelism: Any
) -> TrainingJob:
    checkpoint = checkpoint or {"interval": 2, "storage_bandwidth": "2 GB/s"}
    batch = {"batch_size_per_gpu": 1, "num_iterations": 4, "gradient_accumulation_steps": 4}
    return build_job(
        SimulationConfig(
            hardware={"profile": "dgx-a100"},
            model={"name": "GPT2-Medium"},
            parallelism=parallelism,
            training={**batch, "checkpoint": checkpoint, **(training or {})},
        )
    )


@pytest.mark.parametrize(
    ("strategy", "training", "per_parameter"),
    [
        ("DDP", {}, 12.0),  # fp32 weights, momentum and variance
        ("FSDP", {}, 12.0),
        ("ZERO1", {}, 14.0),  # and the 16-bit weights, which are no shards
        ("ZERO2", {}, 14.0),
        ("ZERO1", {"mixed_precision": False}, 12.0),
        ("DDP", {"optimizer": "sgd"}, 8.0),
        ("HSDP", {"options": {"shard_size": 2}}, 12.0),
    ],
)
def test_every_byte_of_the_states_is_saved_once(strategy: str, training: dict[str, Any], per_parameter: float) -> None:
    made = job(strategy=strategy, training=training)
    assert made.checkpoint_bytes == pytest.approx(per_parameter * made.model.parameters)


@pytest.mark.parametrize("parallelism", [{"tp_degree": 2}, {"pp_stages": 2}, {"pp_stages": 2, "tp_degree": 2}])
def test_its_size_does_not_depend_on_the_division_of_the_model(parallelism: dict[str, int]) -> None:
    assert job(**parallelism).checkpoint_bytes == job().checkpoint_bytes


@pytest.mark.parametrize("asynchronous", [False, True])
def test_ranks_stop_for_the_copy_and_unless_asynchronous_for_the_write(asynchronous: bool) -> None:
    made = job(checkpoint={"interval": 4, "storage_bandwidth": "2 GB/s", "asynchronous": asynchronous})
    spec, nbytes = made.cluster.spec, 12.0 * made.model.parameters
    copy_s = spec.pcie_latency_s + nbytes / 8 / spec.pcie_bytes_per_s  # eight ranks hold the same and share the work
    result = simulate(made.config)
    assert result.rows["checkpoint_s"][:3] == [0.0, 0.0, 0.0]
    assert result.rows["checkpoint_s"][3] == pytest.approx(copy_s + (0.0 if asynchronous else nbytes / 2e9))
    assert result.metrics["checkpoint_s"] == pytest.approx(result.rows["checkpoint_s"][3] / 4)
    assert result.metrics["checkpoint_bytes"] == pytest.approx(nbytes)


def test_the_rank_with_the_largest_share_decides_the_copy() -> None:
    only_copied = {"interval": 1, "storage_bandwidth": "2 GB/s", "asynchronous": True}
    whole, divided = (job(only_copied, **division) for division in ({}, {"pp_stages": 2, "stage_layers": [20, 4]}))
    copies_s = [simulate(each.config).rows["checkpoint_s"][0] for each in (whole, divided)]
    # with one stage of 20 layers of 24 the ranks of that stage copy more than an eighth of the model
    assert 1.5 * copies_s[0] < copies_s[1] < 2.0 * copies_s[0]


def test_without_checkpoints_there_is_nothing_of_them() -> None:
    metrics = simulate(job(training={"checkpoint": None}).config).metrics
    assert metrics["checkpoint_s"] == metrics["checkpoint_bytes"] == 0.0
