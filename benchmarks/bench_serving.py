"""Serving at medium detail: events by request, not by token. Amounts and ratios are asserted; times only reported."""

from __future__ import annotations

from typing import Any

import pytest

REQUESTS = 10_000
OUTPUT_TOKENS = 128


def scenario(rate: str, *, replicas: int = 1, output_tokens: int = OUTPUT_TOKENS, **serving: Any) -> dict[str, Any]:
    """Llama-2-7B on A100s, prompts of 512 tokens."""
    return {
        "hardware": {"profile": "dgx-a100", "gpus_per_node": replicas},
        "model": {"name": "Llama-2-7B"},
        "serving": {"engine": "vllm", **serving},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": rate},
            "prompt_tokens": 512,
            "output_tokens": output_tokens,
            "num_requests": REQUESTS,
        },
    }


@pytest.mark.parametrize("rate", ["2 req/s", "6 req/s"])
def test_runs_of_steps_as_one_event(measure: Any, rate: str) -> None:
    """A few events for each request, where stepping takes one for each step."""
    result = measure(scenario(rate), "requests", REQUESTS)
    assert result.events < 6 * REQUESTS
    assert result.metrics["steps"] > 2 * result.events


def test_steps_one_by_one(measure: Any) -> None:
    """The same times, as a yardstick."""
    result = measure(scenario("6 req/s", stepping=True), "requests", REQUESTS, rounds=1)
    assert result.metrics["steps"] < result.events < result.metrics["steps"] + 2 * REQUESTS


def test_four_times_the_tokens(measure: Any) -> None:
    """Cost grows with requests, not with tokens."""
    result = measure(scenario("2 req/s", output_tokens=4 * OUTPUT_TOKENS), "requests", REQUESTS)
    assert result.events < 6 * REQUESTS


@pytest.mark.parametrize("scheduler", ["static_batching", "orca", "vllm_v0", "priority", "shortest_job_first"])
def test_other_policies(measure: Any, scheduler: str) -> None:
    """Every policy jumps."""
    result = measure(scenario("3 req/s", scheduler=scheduler), "requests", REQUESTS, rounds=1)
    assert result.events < 6 * REQUESTS


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding", "least_kv"])
def test_eight_replicas_behind_a_router(measure: Any, router: str) -> None:
    """What one replica does costs the others nothing."""
    result = measure(scenario("48 req/s", replicas=8, router=router), "requests", REQUESTS)
    assert result.events < 6 * REQUESTS
