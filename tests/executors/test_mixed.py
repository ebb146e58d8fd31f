"""Between the levels of detail: the figures are those of both where links are quiet, and each saves its own events."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.executors import MIXTURES
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

SERVING: dict[str, Any] = {
    "hardware": {"profile": "dgx-h100", "gpus_per_node": 4},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "8 req/s"},
        "prompt_tokens": 300,
        "output_tokens": 12,
        "num_requests": 6,
    },
}
TENSOR = {**SERVING, "parallelism": {"strategy": "TP", "tp_degree": 4}}
STAGES = {**SERVING, "parallelism": {"strategy": "TP_PP", "tp_degree": 2, "pp_stages": 2}}
TRAINING: dict[str, Any] = {
    "hardware": {"profile": "dgx-a100", "gpus_per_node": 4},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 1},
}
STAGED = {
    **TRAINING,
    "parallelism": {"strategy": "PP", "pp_stages": 4},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1, "gradient_accumulation_steps": 4},
}
# Two teams whose rings cross the same cable between two switches.
CROSSED = {
    **SERVING,
    "hardware": {"gpu": "H100-SXM", "num_nodes": 8, "gpus_per_node": 1, "network_bandwidth": "25 GB/s"},
    "network": {
        "topology_type": "custom",
        "edges": [
            *({"from": f"gpu{gpu}", "to": "left" if gpu % 4 < 2 else "right"} for gpu in range(8)),
            {"from": "left", "to": "right"},
        ],
    },
    "parallelism": {"strategy": "TP", "tp_degree": 4, "dp_degree": 2},
    "workload": {
        "arrivals": {"kind": "constant", "rate": "100 req/s"},
        "prompt_tokens": 300,
        "output_tokens": 3,
        "num_requests": 4,
    },
}


def run(config: dict[str, Any], lod: str) -> RunResult:
    if lod in MIXTURES:
        level = "medium" if MIXTURES[lod].computation.aggregates else "high"
        return simulate(SimulationConfig(**config, simulation={"lod": level}), made_of=MIXTURES[lod])
    return simulate(SimulationConfig(**config, simulation={"lod": lod}))


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", [SERVING, TENSOR, STAGES], ids=["none", "tensor", "stages"])
def test_every_request_of_a_mixture_takes_what_it_takes_at_high(config: dict[str, Any], mixture: str) -> None:
    high, mixed = run(config, "high"), run(config, mixture)
    for column in ("admitted_s", "first_token_s", "finished_s"):
        assert mixed.rows[column] == pytest.approx(high.rows[column], rel=1e-9)
    assert mixed.metrics["gpu_utilization"] == pytest.approx(high.metrics["gpu_utilization"], rel=1e-9)


@pytest.mark.parametrize("mixture", MIXTURES)
def test_links_that_have_become_weak_take_as_long_as_at_high(mixture: str) -> None:
    weak = {"links": {"kind": "nvswitch"}, "bandwidth": 0.1, "latency_factor": 3, "from": "1 us", "until": "1 h"}
    config = {**TENSOR, "network": {"degradations": [weak]}}
    plain, high, mixed = run(TENSOR, "high"), run(config, "high"), run(config, mixture)
    assert mixed.rows["finished_s"] == pytest.approx(high.rows["finished_s"], rel=1e-9)
    assert high.metrics["mean_e2el_ms"] > plain.metrics["mean_e2el_ms"] + 1.0


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", [TRAINING, STAGED], ids=["data", "stages"])
def test_training_takes_what_it_takes_at_high(config: dict[str, Any], mixture: str) -> None:
    high, mixed = run(config, "high"), run(config, mixture)
    for name in ("mean_iteration_s", "mfu", "exposed_communication_s"):
        assert mixed.metrics[name] == pytest.approx(high.metrics[name], rel=1e-9)


def test_folded_computation_leaves_an_event_per_collective() -> None:
    result = run(TENSOR, "macro operations")
    exchanges = 2 * 32 + 1 + 1  # two per layer, one after the embedding, the gathered logits
    per_step = 1 + 1 + exchanges + 1  # the host's part, the computation, the event the scheduler waits for
    assert 0 < result.events - per_step * result.metrics["steps"] <= 4 * result.metrics["completed"]


def test_folded_computation_of_training_leaves_what_ranks_exchange_and_wait_for() -> None:
    assert 2 * run(TRAINING, "macro operations").events < run(TRAINING, "high").events


def test_closed_forms_alone_leave_an_event_per_computation_and_collective() -> None:
    result = run(TENSOR, "analytical collectives")
    assert result.events > (2 * 32 + 2) * 2 * result.metrics["steps"]


def test_only_what_carries_out_steps_knows_that_others_use_the_links() -> None:
    high, macro, analytical = (run(CROSSED, lod) for lod in ("high", "macro operations", "analytical collectives"))
    assert analytical.metrics["mean_ttft_ms"] < 0.99 * high.metrics["mean_ttft_ms"]
    assert analytical.metrics["mean_ttft_ms"] < macro.metrics["mean_ttft_ms"]
    assert analytical.events < high.events
    assert high.contention == macro.contention != analytical.contention == "none (idle links)"


def test_no_scenario_can_name_a_mixture() -> None:
    for mixture in MIXTURES:
        with pytest.raises(ValueError, match="lod"):
            SimulationConfig(**SERVING, simulation={"lod": mixture})
