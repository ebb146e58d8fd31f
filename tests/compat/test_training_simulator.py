"""An iteration from models of communication, computation and memory, and its pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

import simsys.compat as dts
from simsys.compat import Visualizer
from simsys.errors import InfeasibleError, UsageError


def results_of(num_devices: int = 8, batch: int = 256, **memory: object) -> dts.TrainingResults:
    # Create a communication model
    comm_model = dts.CommunicationModel(num_nodes=num_devices, topology=dts.Topology.RING)

    # Create a compute model
    compute_model = dts.ComputeModel(num_devices=num_devices, device_type=dts.DeviceType.GPU)

    # Create a memory model
    memory_model = dts.MemoryModel(num_devices=num_devices, **memory)  # type: ignore[arg-type]

    # Create a simulator
    simulator = dts.TrainingSimulator(comm_model, compute_model, memory_model)

    # Configure the simulation
    simulator.set_batch_size(batch)
    simulator.set_model_size(parameters=250e6, activations=100e6)

    # Run the simulation
    return simulator.simulate_training_iteration()


def test_basic_usage(capsys: pytest.CaptureFixture[str]) -> None:
    results = results_of()

    # Get results
    print(f"Iteration time: {results.total_time_ms:.2f} ms")
    print(f"Compute time: {results.compute_time_ms:.2f} ms")
    print(f"Communication time: {results.communication_time_ms:.2f} ms")

    assert capsys.readouterr().out.count(" ms\n") == 3
    metrics = results.result.metrics
    assert results.total_time_ms == 1e3 * metrics["mean_iteration_s"] == 1e3 * results.result.simulated_s
    assert results.compute_time_ms + results.exposed_communication_time_ms == pytest.approx(
        results.total_time_ms, rel=0.05
    )
    least_ms = 1e3 * 2 * 7 / 8 * 1e9 / 25e9  # a gigabyte of gradients in a ring of links of 25 GB/s
    assert least_ms < results.communication_time_ms < 2 * least_ms
    assert "total_time_ms=" in repr(results)


def test_visualization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = results_of(num_devices=4, batch=64)

    # Create a visualizer
    vis = Visualizer()

    # Plot training timeline
    fig = vis.plot_training_timeline(results.events)

    # Plot communication graph
    fig = vis.plot_communication_graph(results.comm_adjacency)

    # Plot scaling efficiency
    fig = vis.plot_scaling_efficiency(
        num_devices=[1, 2, 4, 8, 16, 32],
        throughput=[100, 195, 380, 740, 1400, 2600],
    )

    # Save figure
    vis.save_figure(fig, "scaling_efficiency.png")

    assert Path("scaling_efficiency.png").stat().st_size
    sent = [[int(cell > 0) for cell in row] for row in results.comm_adjacency]
    assert sent == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], "a ring"


def test_memory_limits_and_strategies() -> None:
    plain, divided = results_of(), results_of(strategy="FSDP")
    assert divided.result.memory_bytes["optimizer"] < plain.result.memory_bytes["optimizer"]
    with pytest.raises(InfeasibleError, match="does not fit"):
        results_of(memory_gb=8.0)


def test_one_device_sends_nothing() -> None:
    results = results_of(num_devices=1, batch=8)
    assert results.communication_time_ms == 0.0
    assert results.comm_adjacency == [[0.0]]


def test_models_that_do_not_fit_together() -> None:
    communication, compute = dts.CommunicationModel(num_nodes=3), dts.ComputeModel(num_devices=8)
    with pytest.raises(UsageError, match="8 devices cannot be divided evenly among 3 nodes"):
        dts.TrainingSimulator(communication, compute, dts.MemoryModel(num_devices=8))
    with pytest.raises(UsageError, match="8 devices compute, but 4 have memory"):
        dts.TrainingSimulator(communication, compute, dts.MemoryModel(num_devices=4))
    simulator = dts.TrainingSimulator(dts.CommunicationModel(4), compute, dts.MemoryModel(8))
    with pytest.raises(UsageError, match="call set_model_size first"):
        simulator.simulate_training_iteration()
    simulator.set_model_size(1e6, 1e6)
    simulator.set_batch_size(9)
    with pytest.raises(UsageError, match="a batch of 9 samples"):
        simulator.simulate_training_iteration()
