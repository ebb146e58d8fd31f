"""Which link, rank, stage or replica loses time."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.analysis.findings import Finding, findings
from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate
from tests.helpers.planted import planted


def first(config: SimulationConfig, kind: str) -> Finding:
    found = findings(simulate(config), build_job(config))
    return next(each for each in found if each.kind == kind)


def test_the_slow_link_is_named_with_the_bandwidth_of_the_others() -> None:
    found = first(planted("slow-link"), "network")
    assert found.evidence["dimension"] == "data"
    assert found.evidence["link_kind"] == "nic"
    assert found.evidence["bytes_per_s"] == pytest.approx(0.02 * found.evidence["usual_bytes_per_s"])
    assert "node 1" in found.evidence["link"]


def test_where_transfers_are_on_links_the_busiest_one_is_named() -> None:
    found = first(planted("slow-link", **{"simulation.lod": "high", "model.name": "GPT2-Small"}), "network")
    assert 0.5 < found.evidence["utilization"] <= 1.0
    assert "busiest link" in found.place


@pytest.mark.parametrize(
    "hardware",
    [{"exceptions": [{"gpus": [1, 2], "speed": 0.5}]}, {"slowdowns": [{"gpus": [1, 2], "speed": 0.5}]}],
    ids=["exceptions", "slowdowns"],
)
def test_slow_gpus_are_named(hardware: dict[str, Any]) -> None:
    config = planted("slow-gpu", **{"hardware.exceptions": []})
    found = first(config.with_({f"hardware.{name}": each for name, each in hardware.items()}), "compute")
    assert found.evidence["slow_gpus"] == [1, 2]
    assert found.place == "GPU 1 (node 0) at 50 % speed, GPU 2 (node 0) at 50 % speed"


def test_equal_gpus_are_not_slow() -> None:
    assert "slow_gpus" not in first(planted("slow-gpu", **{"hardware.exceptions": []}), "compute").evidence


def test_the_stage_that_waits_longest_is_named() -> None:
    config = planted("long-pipeline")
    waits = simulate(config).ranks["bubble_s"]
    found = first(config, "bubble")
    assert found.evidence["stage"] == max(range(8), key=lambda stage: waits[stage])
    assert found.evidence["stages"] == 8


def test_the_fullest_cache_and_the_largest_component_are_named() -> None:
    found = first(planted("small-cache"), "kv_capacity")
    assert (found.evidence["kv_blocks"], found.evidence["kv_tokens"]) == (250, 4000)
    assert found.evidence["max_kv_cache_usage"] > 0.95
    memory = first(planted("slow-gpu"), "memory")
    assert memory.evidence["largest_component"] == "activations"
    assert 0 < memory.evidence["peak_memory_share"] < 1
