"""An engine that looks for new requests now and then only."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate


def run(interval: int, lod: str = "medium", **serving: Any) -> RunResult:
    """A few users of a small model, one of whom comes late."""
    config: dict[str, Any] = {
        "simulation": {"lod": lod},
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 1},
        "model": {"name": "GPT2-Small"},
        "serving": {"engine": "sglang", "scheduler": "vllm_v0", "scheduler_recv_interval": interval, **serving},
        "workload": {
            "arrivals": {"kind": "closed_loop", "concurrency": 12},
            "num_requests": 96,
            "prompt_tokens": {"kind": "uniform", "low": 20, "high": 200},
            "output_tokens": {"kind": "uniform", "low": 5, "high": 90},
        },
    }
    return simulate(SimulationConfig(**config))


FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "duration", "completed", "steps")


@pytest.mark.parametrize("scheduler", ["vllm_v0", "chunked_prefill", "orca", "shortest_job_first"])
@pytest.mark.parametrize("interval", [2, 7, 30])
def test_jumping_stepping_and_high_agree(interval: int, scheduler: str) -> None:
    jumped = run(interval, scheduler=scheduler).metrics
    stepped = run(interval, scheduler=scheduler, stepping=True).metrics
    assert [jumped[name] for name in FIGURES] == [stepped[name] for name in FIGURES]
    high = run(interval, "high", scheduler=scheduler).metrics
    assert [high[name] for name in FIGURES] == pytest.approx([jumped[name] for name in FIGURES], rel=1e-9)


def test_every_request_is_served_and_those_that_come_wait_for_the_next_look() -> None:
    once, seldom = (run(interval, async_scheduling=False).metrics for interval in (1, 30))
    assert once["completed"] == seldom["completed"] == 96
    step_ms = once["mean_tpot_ms"]
    later_ms = seldom["mean_ttft_ms"] - once["mean_ttft_ms"]
    assert 2 * step_ms < later_ms < 30 * step_ms


def test_with_nothing_to_do_it_looks_at_once() -> None:
    """One user: nothing decodes when a request comes."""
    alone = {"max_num_seqs": 1, "max_num_batched_tokens": 512}
    assert run(30, **alone).metrics["completed"] == 96
    config = {"workload": {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "num_requests": 5}}
    figures = []
    for interval in (1, 30):
        base = {
            "hardware": {"profile": "dgx-h100", "gpus_per_node": 1},
            "model": {"name": "GPT2-Small"},
            "serving": {"engine": "sglang", "scheduler": "vllm_v0", "scheduler_recv_interval": interval},
        }
        workload = {**config["workload"], "prompt_tokens": 50, "output_tokens": 40}
        figures.append(simulate(SimulationConfig(**base, workload=workload)).metrics["mean_e2el_ms"])
    assert figures[0] == figures[1]
