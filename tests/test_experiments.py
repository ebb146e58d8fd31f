"""Every scenario that comes with simsys can be simulated, and its figures are of the right size."""

from __future__ import annotations

from pathlib import Path

import pytest

import experiments
from simsys import DistributedAISimulator, SimulationConfig
from simsys.check import check_file

FOLDER = Path(next(iter(experiments.__path__)))
FILES = sorted(FOLDER.glob("*.yaml"))
SCENARIOS = [config for file in FILES for config in check_file(file)]
FEW_ITERATIONS, FEW_REQUESTS = 3, 20


def shortened(config: SimulationConfig) -> SimulationConfig:
    """The scenario with less to do."""
    if config.training is not None:
        training = config.training.model_copy(update={"num_iterations": FEW_ITERATIONS})
        return config.model_copy(update={"training": training})
    assert config.workload is not None
    if config.workload.num_requests is None:  # all of a trace
        return config
    return config.model_copy(update={"workload": config.workload.model_copy(update={"num_requests": FEW_REQUESTS})})


@pytest.mark.parametrize("config", SCENARIOS, ids=lambda config: config.name)
def test_every_scenario_runs(config: SimulationConfig) -> None:
    result = DistributedAISimulator(shortened(config)).run()
    assert sum(result.memory_bytes.values()) <= result.metrics["memory_capacity_bytes"]
    if config.training is not None:
        assert result.metrics["iterations"] == FEW_ITERATIONS
        assert 0.1 < result.metrics["mfu"] < 0.8
    else:
        assert result.metrics["completed"] > 0


def test_names_are_unique_over_all_files() -> None:
    names = [config.name for config in SCENARIOS]
    assert len(names) == len(set(names))
