"""Programs for the first design run with another import line; so do its examples, word for word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simsys import OutOfMemoryError
from simsys.compat import (
    DistributedAISimulator,
    HardwareConfig,
    ModelConfig,
    ScalingStudyRunner,
    SimulationConfig,
    TrainingConfig,
    create_medium_scale_config,
    create_small_scale_config,
)
from simsys.errors import InfeasibleError

CONFIG_YAML = """
name: "my_experiment"
description: "Large-scale LLM training"

hardware:
  gpu_model: "H100"
  compute_tflops: 989.0
  memory_gb: 80.0
  network_bandwidth_gbps: 200.0
  num_gpus_per_node: 8

model:
  model_type: "transformer"
  num_layers: 48
  hidden_size: 2048
  num_attention_heads: 32
  sequence_length: 2048

training:
  batch_size_per_gpu: 4
  num_iterations: 100
  num_nodes: 16
  communication_pattern: "ring_allreduce"
  mixed_precision: true

network:
  topology_type: "torus_2d"
  base_latency_us: 5.0
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_basic_usage(capsys: pytest.CaptureFixture[str]) -> None:
    # Create configuration
    config = create_small_scale_config()

    # Run simulation
    simulator = DistributedAISimulator(config)
    results = simulator.run()

    # Analyze results
    print(simulator.get_summary())
    simulator.analyze()
    simulator.visualize()
    simulator.export_results()

    assert results.metrics["iterations"] == 100
    assert capsys.readouterr().out.startswith("small_scale: ")
    written = {path.name for path in Path("results/small_scale").iterdir()}
    assert {
        "small_scale_config.yaml",
        "small_scale_results.json",
        "small_scale_bottlenecks.json",
        "iteration_breakdown.png",
        "resource_utilization.png",
    } <= written


def test_basic_simulation() -> None:
    config = create_small_scale_config()
    simulator = DistributedAISimulator(config)
    results = simulator.run()
    simulator.analyze()

    assert results.metrics["samples_per_s"] > 0


def test_custom_configuration() -> None:
    config = SimulationConfig(
        name="custom_experiment",
        hardware=HardwareConfig(
            gpu_model="H100",
            compute_tflops=989.0,
            memory_gb=80.0,
            network_bandwidth_gbps=200.0,
        ),
        model=ModelConfig(
            model_type="transformer",
            num_layers=32,
            hidden_size=4096,
        ),
        training=TrainingConfig(
            batch_size_per_gpu=8,
            num_iterations=100,
            num_nodes=8,
        ),
    )

    simulator = DistributedAISimulator(config)
    results = simulator.run()

    assert results.metrics["num_gpus"] == 8
    first = results.warnings[0]
    assert "was simulated with parallelism.strategy: FSDP" in first, "seven billion weights in DDP need 142 GiB"
    assert results.metrics["peak_memory_bytes"] < 80e9
    simulator.export_results()
    written = json.loads(Path("results/custom_experiment/custom_experiment_results.json").read_text("utf-8"))
    assert written["warnings"][0] == first


def test_scaling_study() -> None:
    base_config = create_medium_scale_config()
    study = ScalingStudyRunner(base_config)

    # Test scaling from 1 to 16 nodes
    results = study.run_scaling_study([1, 2, 4, 8, 16])
    study.visualize("./results/scaling")

    assert results.rows["gpus"] == [8, 16, 32, 64, 128]
    assert Path("results/scaling/scaling_efficiency.png").stat().st_size


def test_configuration_from_file() -> None:
    Path("config.yaml").write_text(CONFIG_YAML, encoding="utf-8")

    config = SimulationConfig.from_yaml("config.yaml")
    simulator = DistributedAISimulator(config)
    results = simulator.run()

    assert (results.name, results.metrics["num_gpus"], results.metrics["iterations"]) == ("my_experiment", 128, 100)
    assert config.network.base_latency == 5e-6


def test_event_history(capsys: pytest.CaptureFixture[str]) -> None:
    config = create_small_scale_config()
    config.training.num_iterations = 2

    config.collect_detailed_stats = True
    simulator = DistributedAISimulator(config)
    results = simulator.run()

    # Access event history
    for event in simulator.engine.event_history:
        print(f"Event: {event.event_type} at t={event.timestamp}")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Event: ITERATION_START at t=0.0"
    assert lines[-1] == f"Event: ITERATION_END at t={results.simulated_s}"
    kinds = {line.split()[1] for line in lines}
    assert {"COMPUTE_START", "COMPUTE_END", "ALLREDUCE_START", "ALLREDUCE_END"} <= kinds


def test_a_scenario_without_a_remedy_is_refused() -> None:
    model = {"layers": [{"parameters": 1e13}]}
    config = SimulationConfig(hardware={"gpu": "H100-SXM"}, model=model, training={"batch_size_per_gpu": 1})
    with pytest.raises(InfeasibleError, match="does not fit"):
        DistributedAISimulator(config).run()
    assert issubclass(OutOfMemoryError, InfeasibleError)
