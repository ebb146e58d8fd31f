"""Data for pictures from an observed iteration."""

from __future__ import annotations

from typing import Any

import pytest

import simsys.plots.observed as module
from simsys.config.experiment import SimulationConfig
from simsys.plots.observed import observed
from simsys.simulation import simulate
from tests.helpers.places import ROOT

PIPELINE: dict[str, Any] = {
    "name": "p",
    "hardware": {"profile": "dgx-h100"},
    "model": {"name": "GPT2-Medium"},
    "parallelism": {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2},
    "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "num_iterations": 3},
}
SERVING: dict[str, Any] = {
    "name": "s",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"engine": "vllm"},
    "workload": {"arrivals": {"kind": "poisson", "rate": "4 req/s"}, "prompt_tokens": 200, "output_tokens": 20,
                 "num_requests": 50},
}  # fmt: skip


def config_of(given: dict[str, Any], **more: Any) -> SimulationConfig:
    return SimulationConfig.model_validate({**given, **more})


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_the_observed_iteration_is_that_of_the_run(lod: str) -> None:
    config = config_of(PIPELINE, simulation={"lod": lod})
    result = simulate(config)
    tables = observed(config, result).tables
    activity = tables["activity"]
    assert max(activity["end_s"]) == pytest.approx(result.rows["iteration_s"][0], rel=1e-6)
    for rank, compute_s in zip(result.ranks["rank"], result.ranks["compute_s"], strict=True):
        passes = tables["passes"]
        seconds = [s for of, s in zip(passes["rank"], passes["seconds"], strict=True) if of == rank]
        assert sum(seconds) == pytest.approx(compute_s, rel=1e-6)
    peak = max(sum(sizes) for sizes in zip(*(tables["held"][name] for name in held_names(tables)), strict=True))
    assert peak == pytest.approx(result.metrics["peak_memory_bytes"])


def held_names(tables: Any) -> list[str]:
    return [name for name in tables["held"] if name not in ("stage", "rank", "time_s")]


def test_passes_have_their_micro_batches_in_order() -> None:
    config = config_of(PIPELINE)
    activity = observed(config, simulate(config)).tables["activity"]
    rows = list(zip(*(activity[name] for name in ("stage", "what", "micro_batch", "start_s")), strict=True))
    forward = [micro_batch for stage, what, micro_batch, _ in sorted(rows, key=lambda row: row[3])
               if (stage, what) == (0, "forward")]  # fmt: skip
    assert forward == [0, 1, 2, 3]


def test_the_loads_of_links_are_the_bytes_of_the_communication_graph() -> None:
    config = config_of(PIPELINE)
    tables = observed(config, simulate(config)).tables
    sent = sum(n for s, n in zip(tables["loads"]["src"], tables["loads"]["nbytes"], strict=True) if s < 8)
    assert sent == pytest.approx(sum(tables["traffic"]["nbytes"]))


def test_serving_has_passes_and_gaps_between_tokens() -> None:
    config = config_of(SERVING)
    result = simulate(config)
    tables = observed(config, result).tables
    assert [name.partition(" of ")[0] for name in tables["passes"]["name"]] == ["prefill", "decode step"]
    intensity = [
        flop / nbytes for flop, nbytes in zip(tables["passes"]["flop"], tables["passes"]["nbytes"], strict=True)
    ]
    assert intensity[0] > 100.0 > intensity[1]
    share, itl_ms = (tables["gaps"][name] for name in ("share_percent", "itl_ms"))
    middle = min(range(len(share)), key=lambda place: abs(share[place] - 50.0))
    assert itl_ms[middle] == pytest.approx(result.metrics["p50_itl_ms"], rel=0.02)


def test_serving_on_several_gpus_has_its_traffic() -> None:
    hardware = {"profile": "dgx-h100", "gpus_per_node": 2}
    config = config_of(SERVING, hardware=hardware, parallelism={"strategy": "TP", "tp_degree": 2})
    tables = observed(config, simulate(config)).tables
    assert list(zip(tables["traffic"]["src"], tables["traffic"]["dst"], strict=True)) == [(0, 1), (1, 0)]
    assert sum(tables["loads"]["nbytes"]) == pytest.approx(2 * sum(tables["traffic"]["nbytes"]))
    assert all(0.0 < share < 1.0 for share in tables["loads"]["utilization"])


@pytest.mark.parametrize("given", [PIPELINE, SERVING])
def test_the_graph_of_the_whole_run_stays(given: dict[str, Any]) -> None:
    config = config_of(given, simulation={"collect_events": True})
    assert "traffic" not in observed(config, simulate(config)).tables


def test_a_shared_cluster_is_not_observed() -> None:
    config = SimulationConfig.from_yaml(ROOT / "experiments" / "shared_cluster.yaml", "packed")
    assert observed(config, simulate(config)) == (
        {},
        "passes, memory over time and traffic are observed of one job, not of several",
    )


def test_a_very_long_iteration_is_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(PIPELINE)
    monkeypatch.setattr(module, "MOST_PASSES", 50)
    tables, missing = observed(config, simulate(config))
    assert tables == {}
    assert missing == "an iteration of more than 50 passes of blocks is not observed, and this one has 104"
