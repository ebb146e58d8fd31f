"""Data-parallel ranks whose prompts wait for each other."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "duration", "completed")


def run(steps: int, lod: str = "medium", step_tokens: int = 8192, **given: Any) -> RunResult:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 4},
        model={"name": "gpt-oss-20b"},
        parallelism={"attention_dp": 4, "ep_degree": 4},
        serving={
            "engine": "tensorrt-llm",
            "precision": "bf16",
            "attention_dp_timeout_iters": steps,
            "max_num_batched_tokens": step_tokens,
            "router": "least_outstanding",
        },
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


@pytest.mark.parametrize("step_tokens", [8192, 1100])
def test_levels_agree(step_tokens: int) -> None:
    medium, high = (run(20, lod, step_tokens).metrics for lod in ("medium", "high"))
    assert [medium[name] for name in FIGURES] == pytest.approx([high[name] for name in FIGURES], rel=1e-6)


def test_prompts_wait_and_tokens_come_faster() -> None:
    """Fewer steps have prompts, so decoding is delayed less often, at the price of later first tokens."""
    at_once, together = run(0).metrics, run(30).metrics
    assert together["mean_ttft_ms"] > at_once["mean_ttft_ms"]
    assert together["mean_tpot_ms"] < at_once["mean_tpot_ms"]
    assert together["completed"] == at_once["completed"] == 96


def test_prompts_without_room_in_a_step_wait_for_the_next_one_with_prompts() -> None:
    """Up to four of a rank come together; a step has room for one."""
    roomy, narrow = run(30).metrics, run(30, step_tokens=1100).metrics
    assert narrow["mean_queue_ms"] > 1.05 * roomy["mean_queue_ms"]
    assert narrow["completed"] == 96


def test_ranks_do_not_wait_for_an_idle_rank() -> None:
    few = {"arrivals": {"kind": "closed_loop", "concurrency": 3}, "num_requests": 12}
    at_once, together = run(0, **few).metrics, run(30, **few).metrics
    assert together["mean_ttft_ms"] == pytest.approx(at_once["mean_ttft_ms"], rel=1e-9)
