"""An engine that lets prompts wait for others."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.serving.batch_wait import BatchWait
from simsys.serving.polling import Polling
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve

CLOSED = {"kind": "closed_loop", "concurrency": 12}
FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "duration", "completed", "steps")


def run(steps: int, ratio: float = 1.0, lod: str = "medium", **given: Any) -> RunResult:
    """A few users of a small model."""
    wait = {"batch_wait_timeout_iters": steps, "batch_wait_max_tokens_ratio": ratio} if steps else {}
    workload = {
        "arrivals": given.pop("arrivals", CLOSED),
        "num_requests": given.pop("num_requests", 96),
        "prompt_tokens": given.pop("prompt_tokens", {"kind": "uniform", "low": 20, "high": 200}),
        "output_tokens": given.pop("output_tokens", {"kind": "uniform", "low": 5, "high": 90}),
    }
    config: dict[str, Any] = {
        "simulation": {"lod": lod},
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 1},
        "model": {"name": "GPT2-Small"},
        "serving": {
            **{"engine": "tensorrt-llm", "scheduler": "orca", "api_overhead": "0 s", "max_num_batched_tokens": 2048},
            **wait,
            **given,
        },
        "workload": workload,
    }
    return simulate(SimulationConfig(**config))


@pytest.mark.parametrize("scheduler", ["vllm_v0", "chunked_prefill", "orca", "shortest_job_first"])
@pytest.mark.parametrize(("steps", "ratio"), [(1, 1.0), (20, 1.0), (20, 0.15)])
def test_jumping_stepping_and_high_agree(steps: int, ratio: float, scheduler: str) -> None:
    jumped = run(steps, ratio, scheduler=scheduler).metrics
    stepped = run(steps, ratio, scheduler=scheduler, stepping=True).metrics
    assert [jumped[name] for name in FIGURES] == [stepped[name] for name in FIGURES]
    high = run(steps, ratio, "high", scheduler=scheduler).metrics
    assert [high[name] for name in FIGURES] == pytest.approx([jumped[name] for name in FIGURES], rel=1e-9)


@pytest.mark.parametrize("stepping", [False, True])
def test_who_comes_alone_waits_so_many_steps_after_the_one_under_way(stepping: bool) -> None:
    """Two requests: the second comes while the first one decodes."""
    two: dict[str, Any] = {
        "arrivals": {"kind": "constant", "rate": "100 req/s"},
        "num_requests": 2,
        "prompt_tokens": 64,
        "output_tokens": 400,
        "stepping": stepping,
        "async_scheduling": False,
    }
    none, ten, eleven = (run(steps, **two).metrics["mean_ttft_ms"] for steps in (0, 10, 11))
    step_ms = eleven - ten
    assert ten - none == pytest.approx(10 * step_ms, rel=0.01)
    enough = 65 / 2048  # a prompt and the token of the first
    assert run(10, enough, **two).metrics["mean_ttft_ms"] == pytest.approx(none)
    assert run(10, 1.1 * enough, **two).metrics["mean_ttft_ms"] == pytest.approx(ten)


def test_with_nothing_to_decode_nobody_waits() -> None:
    alone = {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "num_requests": 5}
    assert run(20, **alone).metrics["mean_e2el_ms"] == run(0, **alone).metrics["mean_e2el_ms"]


def test_every_request_is_served_and_more_prompts_share_a_step() -> None:
    once, waited = run(0).metrics, run(20).metrics
    assert once["completed"] == waited["completed"] == 96
    assert waited["mean_ttft_ms"] > once["mean_ttft_ms"]


@pytest.mark.parametrize("intake", [lambda: BatchWait(3, 10**9), lambda: Polling(3)])
def test_prompts_of_many_steps_do_not_hold_up_those_that_wait(intake: Any) -> None:
    """A prompt of 100 steps leaves room for others in each of them; one comes in its fifth step."""
    requests = RequestTable([0.0, 30e-6], [300, 2], [2, 2])
    settings = Limits(num_blocks=1000, long_prefill_token_threshold=3)
    runs, steps = (serve(requests, settings, level=level, intake=intake) for level in ("medium", "stepping"))
    assert runs.history() == steps.history()
    started_s = [step.started_s for step in steps.steps]
    came_in = sum(time_s < 30e-6 for time_s in started_s) - 1
    waits = {"BatchWait": 3, "Polling": 0}[type(intake()).__name__]
    assert started_s.index(steps.times("admitted")[1]) == came_in + 1 + waits


def test_a_request_that_starts_to_decode_may_make_those_that_wait_enough() -> None:
    """Prompts of 8 tokens come during another one of 6; 9 tokens are enough, the first of which is a decoded one."""
    requests = RequestTable([0.0, 1e-6, 1e-6], [6, 4, 4], [40, 2, 2])
    settings = Limits(num_blocks=1000)
    runs, steps = (
        serve(requests, settings, level=level, intake=lambda: BatchWait(20, 9)) for level in ("medium", "stepping")
    )
    assert runs.history() == steps.history()
    assert [step.chunks for step in runs.steps[:3]] == [[(0, 6)], [], [(1, 4), (2, 4)]]
