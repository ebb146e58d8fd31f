"""Scenarios that can be changed in place."""

from __future__ import annotations

import pytest

from simsys.compat import (
    HardwareConfig,
    SimulationConfig,
    create_large_scale_config,
    create_medium_scale_config,
    create_small_scale_config,
)
from simsys.compat.simulator import DistributedAISimulator
from simsys.errors import ConfigError


def test_an_assignment_is_validated_and_changes_the_scenario_only() -> None:
    config = create_medium_scale_config()
    before = config.core
    config.training.batch_size_per_gpu = 4
    config.name = "mine"
    assert (config.core.name, config.core.training.batch_size_per_gpu) == ("mine", 4)  # type: ignore[union-attr]
    assert before == create_medium_scale_config().core
    with pytest.raises(ConfigError, match=r"training\.batch_size_per_gpu"):
        config.training.batch_size_per_gpu = -1
    with pytest.raises(ConfigError, match="did you mean 'num_iterations'"):
        config.training.num_iteration = 3
    assert config.training.batch_size_per_gpu == 4


@pytest.mark.parametrize(
    ("path", "value", "now"),
    [
        ("training.num_nodes", 3, "hardware.num_nodes"),
        ("hardware.num_gpus_per_node", 4, "hardware.gpus_per_node"),
        ("collect_detailed_stats", True, "simulation.collect_events"),
    ],
)
def test_older_settings_have_another_place(path: str, value: object, now: str) -> None:
    config = create_small_scale_config()
    config.assign(path, value)
    assert config.value(path) == config.value(now) == value


def test_a_gpu_of_ones_own() -> None:
    custom_gpu = HardwareConfig(
        gpu_model="MyGPU",
        compute_tflops=500.0,
        memory_gb=96.0,
        network_bandwidth_gbps=150.0,
        num_gpus_per_node=8,
    )

    config = SimulationConfig(
        hardware=custom_gpu,
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP"},
        training={"batch_size_per_gpu": 8, "num_iterations": 2},
    )
    result = DistributedAISimulator(config).run()
    assert result.metrics["memory_capacity_bytes"] <= 96e9
    assert any("H100-SXM" in line for line in result.assumptions), "what it inherits is listed"
    assert "MyGPU" in str(config.hardware.gpu)


def test_a_gpu_without_its_figures_is_refused() -> None:
    config = SimulationConfig(
        hardware=HardwareConfig(gpu_model="H1000"), model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 8}
    )
    with pytest.raises(ConfigError, match="did you mean 'H100'"):
        DistributedAISimulator(config).run()


def test_the_large_preset_is_the_one_of_simsys() -> None:
    assert create_large_scale_config().core.hardware.num_nodes == 16
    assert "large_scale" in repr(create_large_scale_config())
