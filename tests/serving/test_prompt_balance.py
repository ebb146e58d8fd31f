"""Data-parallel ranks whose prompts wait for each other."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "duration", "completed")


def run(steps: int, lod: str = "medium", **given: Any) -> RunResult:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 4},
        model={"name": "gpt-oss-20b"},
        parallelism={"attention_dp": 4, "ep_degree": 4},
        serving={"precision": "bf16", "attention_dp_timeout_iters": steps, "router": "least_outstanding"},
        workload={
            "arrivals": {"kind": "closed_loop", "concurrency": 16},
            "prompt_tokens": {"kind": "uniform", "low": 800, "high": 1000},
            "output_tokens": {"kind": "uniform", "low": 30, "high": 60},
            "num_requests": 96,
            **given,
        },
        simulation={"lod": lod},
    )
    assert check_config(config) == []
    return simulate(config)


def test_levels_agree() -> None:
    medium, high = run(20).metrics, run(20, "high").metrics
    assert [medium[name] for name in FIGURES] == pytest.approx([high[name] for name in FIGURES], rel=1e-6)


def test_prompts_wait_and_tokens_come_faster() -> None:
    """Fewer steps have prompts, so decoding is delayed less often, at the price of later first tokens."""
    at_once, together = run(0).metrics, run(30).metrics
    assert together["mean_ttft_ms"] > at_once["mean_ttft_ms"]
    assert together["mean_tpot_ms"] < at_once["mean_tpot_ms"]
    assert together["completed"] == at_once["completed"] == 96


def test_ranks_do_not_wait_for_an_idle_rank() -> None:
    few = {"arrivals": {"kind": "closed_loop", "concurrency": 3}, "num_requests": 12}
    at_once, together = run(0, **few).metrics, run(30, **few).metrics
    assert together["mean_ttft_ms"] == pytest.approx(at_once["mean_ttft_ms"], rel=1e-9)
