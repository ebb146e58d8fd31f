"""The ready-made scenarios, and the first steps with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import simsys
from simsys import DistributedAISimulator, SimulationConfig
from simsys.check import check_config

PRESETS = {
    "small": (simsys.create_small_scale_config, 8),
    "medium": (simsys.create_medium_scale_config, 32),
    "large": (simsys.create_large_scale_config, 128),
}


@pytest.mark.parametrize(("create", "gpus"), PRESETS.values(), ids=PRESETS)
def test_a_preset_is_a_sound_scenario_that_fits_its_memory(create: Callable[[], SimulationConfig], gpus: int) -> None:
    config = create()
    assert check_config(config) == []
    metrics = DistributedAISimulator(config).run().metrics
    assert metrics["num_gpus"] == gpus
    assert 0.1 < metrics["peak_memory_bytes"] / metrics["memory_capacity_bytes"] < 0.9
    assert 0.2 < metrics["mfu"] < 0.7


def test_presets_have_names_of_their_own() -> None:
    assert len({create().name for create, _ in PRESETS.values()}) == len(PRESETS)


def test_quick_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = simsys.create_small_scale_config()
    simulator = DistributedAISimulator(config)
    result = simulator.run()
    assert simulator.get_summary().startswith("small_scale: ")
    assert [found.kind for found in simulator.analyze()] == ["compute"]
    images = simulator.visualize()
    files = simulator.export_results()
    assert simulator.result is result, "nothing of this runs the scenario again"
    assert {path.relative_to("results/small_scale").name for path in [*images, *files]} == {
        "iteration_breakdown.png",
        "memory.png",
        "pipeline.png",
        "resource_utilization.png",
        "roofline.png",
        "topology.png",
        "traffic.png",
        "small_scale_config.yaml",
        "small_scale_results.json",
        "small_scale_bottlenecks.json",
        "small_scale_iterations.csv",
        "small_scale_ranks.csv",
    }
    assert all(path.stat().st_size for path in [*images, *files])
    (written,) = (path for path in files if path.name.endswith("_bottlenecks.json"))
    (found,) = json.loads(written.read_text(encoding="utf-8"))["bottlenecks"]
    assert found["kind"] == "compute"
    assert found["severity"] == simulator.analyze()[0].severity
