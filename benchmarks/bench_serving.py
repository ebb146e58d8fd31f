"""Serving at medium detail: a handful of events. Amounts and ratios are asserted; times only reported."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import FIGURES

from simsys.config.experiment import SimulationConfig
from simsys.level_study.isolated import isolated
from simsys.level_study.measurement import Measurement
from simsys.level_study.measurement import measure as measured
from simsys.level_study.variants import MEDIUM

REQUESTS = 10_000
OUTPUT_TOKENS = 128
FEW = 10
"""Events, whatever the number of requests."""


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
def test_runs_of_steps_without_events(measure: Any, rate: str) -> None:
    """Neither requests nor steps are events: nothing else comes in between."""
    result = measure(scenario(rate), "requests", REQUESTS)
    assert result.events < FEW


def test_a_million_requests(benchmark: Any) -> None:
    """With all metrics, in a process of its own; its memory is what it takes beside what it has imported."""
    config = scenario("6 req/s")
    config["workload"]["num_requests"] = 1_000_000
    arguments = (measured, None, SimulationConfig(**config), MEDIUM)
    found: Measurement = benchmark.pedantic(isolated, args=arguments, rounds=1)
    assert found.figures["completed"] == 1_000_000
    memory = f", {found.peak_bytes / 2**20:,.0f} MiB" if found.peak_bytes else ""
    FIGURES.append(("a million requests", f"{found.cpu_s[0]:.1f} s of CPU{memory}"))


def test_lengths_of_a_chat(measure: Any) -> None:
    """Prompts and outputs as in the Azure conversation trace: of all lengths, some longer than a step."""
    lengths = {
        "prompt_tokens": {"kind": "lognormal", "mean": 1155, "sigma": 1.1, "max": 14_000},
        "output_tokens": {"kind": "lognormal", "mean": 211, "sigma": 0.8, "max": 1000},
    }
    config = scenario("5 req/s")
    config |= {"model": {"name": "Llama-3.1-8B"}, "workload": config["workload"] | lengths}
    result = measure(config, "requests", REQUESTS)
    assert result.metrics["completed"] == REQUESTS
    assert result.events < FEW


def test_steps_one_by_one(measure: Any) -> None:
    """The same times in runs of one step, as a yardstick."""
    result = measure(scenario("6 req/s", stepping=True), "requests", REQUESTS, rounds=1)
    assert result.events < FEW


def test_four_times_the_tokens(measure: Any) -> None:
    """Cost grows with requests, not with tokens."""
    result = measure(scenario("2 req/s", output_tokens=4 * OUTPUT_TOKENS), "requests", REQUESTS)
    assert result.events < FEW


@pytest.mark.parametrize("scheduler", ["static_batching", "orca", "vllm_v0", "priority", "shortest_job_first"])
def test_other_policies(measure: Any, scheduler: str) -> None:
    """Every policy is served in runs."""
    result = measure(scenario("3 req/s", scheduler=scheduler), "requests", REQUESTS, rounds=1)
    assert result.events < FEW


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding", "least_kv"])
def test_eight_replicas_behind_a_router(measure: Any, router: str) -> None:
    """What one replica does costs the others nothing."""
    result = measure(scenario("48 req/s", replicas=8, router=router), "requests", REQUESTS)
    assert result.events < FEW


@pytest.mark.parametrize("router", ["round_robin", "prefix_affinity"])
def test_eight_replicas_that_share_prefixes(measure: Any, router: str) -> None:
    """Sixteen system prompts, kept in the caches of the replicas."""
    config = scenario("40 req/s", replicas=8, router=router, prefix_caching=True)
    config["workload"]["prefixes"] = {"groups": 16, "tokens": 256}
    result = measure(config, "requests", REQUESTS)
    assert result.metrics["prefix_cache_hits"] > 0
    assert result.events < FEW
