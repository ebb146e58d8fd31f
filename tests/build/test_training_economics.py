"""Cost, energy and time of a whole training, from its run, checkpoints and failures."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.economics import economic_assumptions
from simsys.build.job import build_job
from simsys.errors import ConfigError
from simsys.metrics.result import RunResult

CHECKPOINT = {"interval": 2, "storage_bandwidth": "1 GB/s"}


def run(training: dict[str, Any], **sections: Any) -> RunResult:
    return DistributedAISimulator(scenario(training, **sections)).run()


def scenario(training: dict[str, Any], **sections: Any) -> SimulationConfig:
    whole = {
        "hardware": {"gpu": "H100-SXM", "gpus_per_node": 4},
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 4, "target": {"tokens": 1e9}, **training},
        **sections,
    }
    return SimulationConfig(**whole)


def test_the_time_to_train_is_iterations_and_checkpoints() -> None:
    result = run({"checkpoint": CHECKPOINT})
    metrics, stop_s = result.metrics, result.rows["checkpoint_s"][1]
    count = metrics["iterations_to_train"]
    assert count == -(-(10**9) // (4 * 2 * 1024))
    assert metrics["time_to_train_s"] == pytest.approx(count * metrics["steady_iteration_s"] + count // 2 * stop_s)


def test_the_number_of_simulated_iterations_does_not_matter() -> None:
    few, many = (run({"checkpoint": CHECKPOINT, "num_iterations": count}).metrics for count in (2, 9))
    for name in ("time_to_train_s", "usd_to_train", "energy_to_train_j"):
        assert few[name] == pytest.approx(many[name], rel=1e-9)
    assert few["energy_per_iteration_j"] != pytest.approx(many["energy_per_iteration_j"])


def test_a_background_write_that_lasts_longer_than_the_work_delays_training() -> None:
    slow = run({"checkpoint": {**CHECKPOINT, "asynchronous": True, "storage_bandwidth": "100 MB/s"}}).metrics
    written_s = slow["checkpoint_bytes"] / 1e8
    assert slow["time_to_train_s"] / slow["iterations_to_train"] == pytest.approx(written_s / 2, rel=0.01)


def test_failures_lengthen_training_by_the_goodput() -> None:
    failing = run({"failures": {"gpu_mtbf": "300 h", "duration": "300 d", "restart": "30 min"}}).metrics
    work_s = failing["iterations_to_train"] * failing["steady_iteration_s"]
    assert 0 < failing["goodput"] < 1
    assert failing["time_to_train_s"] == pytest.approx(work_s / failing["goodput"])
    assert failing["energy_to_train_j"] > run({}).metrics["energy_to_train_j"]


@pytest.mark.parametrize(("batch", "least", "most"), [(32, 0.99, 1.0), (2, 0.5, 0.8)])
def test_energy_of_an_iteration_is_that_of_its_kernels(batch: int, least: float, most: float) -> None:
    costs = {"pue": 1.25, "idle_share": 0.0, "carbon_intensity": "36 g/kWh"}
    metrics = run({"batch_size_per_gpu": batch}, economics=costs).metrics  # small batches wait for launches
    share = metrics["energy_per_iteration_j"] / (1.25 * 4 * 700 * metrics["compute_s"])
    assert least < share < most
    assert metrics["co2_per_iteration_kg"] == pytest.approx(metrics["energy_per_iteration_j"] * 1e-8)


def test_batches_of_a_schedule_keep_their_shares() -> None:
    ramp = [{"from_iteration": 2, "gradient_accumulation_steps": 3}]
    metrics = run({"batch_schedule": ramp}).metrics
    assert metrics["iterations_to_train"] == -(-(10**9) // (2 * 4 * 2 * 1024))
    mean_s = metrics["time_to_train_s"] / metrics["iterations_to_train"]
    assert mean_s == pytest.approx(metrics["mean_iteration_s"])


def test_what_the_figures_rest_on_is_said() -> None:
    config = scenario({})
    price, power, carbon = economic_assumptions(build_job(config).cluster, config.economics)
    assert price.startswith("price: 6.88 $/h per GPU, AWS")
    assert power == "energy: GPUs only, 15% of 700 W when idle, all of it when busy, linear between"
    assert carbon == "CO2: 481 g/kWh, world average of 2023 (Ember)"
    own = scenario({}, economics={"pue": 1.1, "carbon_intensity": "0.03 kg/kWh"})
    assert economic_assumptions(build_job(own).cluster, own.economics)[1:] == [
        "energy: GPUs times a PUE of 1.1, 15% of 700 W when idle, all of it when busy, linear between",
        "CO2: 30 g/kWh",
    ]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "give tokens, such as 300e9"),
        ({"epochs": 2}, "give tokens"),
        ({"tokens": 1e9, "epochs": 2}, "epochs needs dataset_tokens"),
        ({"tokens": 1e9, "epochs": 2, "dataset_tokens": 1e6}, "given twice"),
        ({"tokens": 0}, "must be above 0"),
        ({"tokens": "many"}, "number"),
    ],
)
def test_a_target_without_a_meaning_is_refused(target: dict[str, Any], message: str) -> None:
    from simsys.config.loader import validate

    data = {"hardware": {"gpu": "H100-SXM"}, "model": {"name": "GPT2-Small"}}
    with pytest.raises(ConfigError, match=message):
        validate({**data, "training": {"batch_size_per_gpu": 1, "target": target}}, SimulationConfig)
