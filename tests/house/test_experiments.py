"""Every scenario that comes with simsys can be simulated, and its figures are of the right size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import experiments
from simsys import (
    DistributedAISimulator,
    SimulationConfig,
    create_large_scale_config,
    create_medium_scale_config,
    create_small_scale_config,
)
from simsys.config.scenarios import read_scenarios
from simsys.config.training import TrainingConfig
from simsys.metrics.result import RunResult

FOLDER = Path(next(iter(experiments.__path__)))
FILES = sorted(FOLDER.glob("*.yaml"))
SCENARIOS = [config for file in FILES for config in read_scenarios(file)]  # checked in test_check.py
FEW_ITERATIONS, FEW_REQUESTS = 3, 20
SLOW = {
    "llama3.1-405b-16416xH100-month",  # the routes among 2,052 nodes
    "megatron-175b-tp8-pp12-1536xA100",
    "gpt3-175b-tp8-pp8-interleaved-512xA100",
    "mixtral-8x7b-tp2-ep8-pp4-64xH100",
    "eight-replicas-round-robin",
    "eight-replicas-central-queue",
    "llama3.1-405b-tp8-cp2-pp8-512xH100",
    "megatron-530b-tp8-pp35-280xA100",
}
"""They take long, and differ in a number or in one setting from others that are run."""


def shortened(config: SimulationConfig) -> SimulationConfig:
    """The scenario with less to do."""
    if config.training is not None:
        training = config.training.model_copy(update={"num_iterations": iterations_of(config.training)})
        return config.model_copy(update={"training": training})
    assert config.workload is not None
    if config.workload.num_requests is None and config.workload.duration is None:  # all of a trace
        return config
    few = {"num_requests": FEW_REQUESTS, "duration": None}
    return config.model_copy(update={"workload": config.workload.model_copy(update=few)})


def iterations_of(training: TrainingConfig) -> int:
    """As few as show every size of the batch, and a checkpoint if there are any."""
    last_change = max((entry.from_iteration for entry in training.batch_schedule), default=0)
    checkpoint = training.checkpoint.interval if training.checkpoint is not None else 0
    return max(last_change, checkpoint) + FEW_ITERATIONS


@cache
def result_of(name: str) -> RunResult:
    (config,) = (config for config in SCENARIOS if config.name == name)
    return DistributedAISimulator(shortened(config)).run()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(config, marks=pytest.mark.slow if config.name in SLOW else (), id=config.name)
        for config in SCENARIOS
    ],
)
def test_every_scenario_runs(config: SimulationConfig) -> None:
    assert config.description
    result = result_of(config.name)
    for each in result.jobs or [result]:
        assert sum(each.memory_bytes.values()) <= each.metrics["memory_capacity_bytes"]
    if config.kind == "jobs":
        assert result.metrics["jobs"] == len(config.jobs or ())
    elif config.training is not None:
        assert result.metrics["iterations"] == iterations_of(config.training)
        assert 0.1 < result.metrics["mfu"] < 0.8
    else:
        assert result.metrics["completed"] > 0


@pytest.mark.parametrize(
    ("name", "measured_s"),
    [
        ("megatron-22b-tp8", 1.10),
        ("megatron-175b-tp8-pp8-64xA100", 13.75),
        ("megatron-530b-tp8-pp35-280xA100", 37.83),
        ("megatron-1t-tp8-pp64-512xA100", 71.49),
    ],
)
def test_the_layouts_of_korthikanti_2022_take_about_as_long_as_in_table_5(name: str, measured_s: float) -> None:
    metrics = result_of(name).metrics
    assert metrics["mean_iteration_s"] == pytest.approx(measured_s, rel=0.25)


@pytest.mark.parametrize(
    ("name", "create"),
    [
        ("small", create_small_scale_config),
        ("medium", create_medium_scale_config),
        ("large", create_large_scale_config),
    ],
)
def test_the_presets_are_scenarios_too(name: str, create: Callable[[], SimulationConfig]) -> None:
    (config,) = (config for config in SCENARIOS if config.name == name)
    said, made = (each.model_dump(exclude={"name", "description"}) for each in (config, create()))
    assert said == made


def test_names_are_unique_over_all_files() -> None:
    names = [config.name for config in SCENARIOS]
    assert len(names) == len(set(names))
