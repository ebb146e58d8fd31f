"""Pictures of own data under earlier names."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.errors import UsageError
from simsys.plots.visualizer import Visualizer

CONFIG = {
    "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 8, "num_iterations": 1},
    "simulation": {"collect_events": True, "lod": "high"},
}


def test_a_run_is_drawn_by_its_events_and_its_traffic(tmp_path: Path) -> None:
    simulator = DistributedAISimulator(SimulationConfig.model_validate(CONFIG))
    result = simulator.run()
    draw = Visualizer()
    line = draw.plot_training_timeline(simulator.engine.event_history)
    assert [each.get_text() for each in line.legends[0].get_texts()][:2] == ["forward", "backward"]
    graph = draw.plot_communication_graph(result.traffic)
    assert graph.axes[0].get_xlabel() == "receiving GPU"
    assert draw.save_figure(line, tmp_path / "line.png").stat().st_size > 1000


def test_a_graph_is_a_square_matrix() -> None:
    draw = Visualizer()
    assert draw.plot_communication_graph([[0.0, 1.0], [2.0, 0.0]]).axes
    assert draw.plot_communication_graph({(0, 1): 5.0, (1, 2): 1.0}).axes
    for wrong in ([[1.0, 2.0]], []):
        with pytest.raises(UsageError, match="a communication graph is a square matrix"):
            draw.plot_communication_graph(wrong)


def test_scaling_needs_a_throughput_for_each_number_of_devices() -> None:
    draw = Visualizer()
    assert len(draw.plot_scaling_efficiency([1, 2, 4, 8, 16, 32], [100, 195, 380, 740, 1400, 2600]).axes) == 2
    for sizes, rates, message in (
        ([1, 2], [1.0], "these are 2 and 1"),
        ([], [], "these are 0 and 0"),
        ([0, 1], [1.0, 2.0], "are positive"),
    ):
        with pytest.raises(UsageError, match=message):
            draw.plot_scaling_efficiency(sizes, rates)


def test_no_events_are_refused() -> None:
    with pytest.raises(UsageError, match="no operation in these events"):
        Visualizer().plot_training_timeline([])
