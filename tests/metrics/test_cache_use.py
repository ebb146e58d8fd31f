"""Mean use of the KV cache: what requests hold token by token, and the same however many steps are one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.cache_use import _waits
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.simulation import simulate


def served(
    *, lod: str = "medium", stepping: bool = False, serving: dict[str, Any] | None = None, stages: int = 1
) -> RunResult:
    return simulate(
        SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": 2},
            model={"name": "GPT2-Small"},
            parallelism={"pp_stages": stages},
            serving={"stepping": stepping, **(serving or {})},
            workload={
                "arrivals": {"kind": "poisson", "rate": "300 req/s"},
                "prompt_tokens": {"kind": "uniform", "low": 1, "high": 900},
                "output_tokens": {"kind": "uniform", "low": 1, "high": 90},
                "num_requests": 40,
            },
            simulation={"lod": lod},
        )
    )


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("block_size", [1, 7, 16, 512])
def test_the_mean_is_that_of_what_each_request_holds_in_each_step(block_size: int, stages: int) -> None:
    result = served(serving={"block_size": block_size}, stages=stages)
    log = result.requests
    assert log is not None
    gaps = gaps_by_request(log)
    assert gaps is not None
    block_s = 0.0
    for request, prompt in enumerate(log.requests.prompt_tokens):
        # A prompt fits into a step, whose end is its first token; token k comes at the end of gap k.
        lengths_s = [log.first_token_s[request] - log.admitted_s[request], *gaps[request]]
        block_s += sum(length_s * -(-(prompt + token) // block_size) for token, length_s in enumerate(lengths_s))
    mean = block_s / log.kv_blocks / result.simulated_s
    assert result.metrics["mean_kv_cache_usage"] == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize(
    "serving",
    [
        {"max_num_batched_tokens": 128, "max_num_seqs": 64},  # prompts in several chunks
        {"scheduler": "vllm_v0"},
        {"scheduler": "orca"},
        {"gpu_memory_utilization": 0.0275},  # preemptions
        {"prefix_caching": True},
        {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.6}},
        {"speculative": {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_layers": 1}, "block_size": 512},
        {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}, "max_num_batched_tokens": 256},
    ],
)
@pytest.mark.parametrize("stages", [1, 2])
def test_it_does_not_depend_on_how_long_runs_of_steps_are(serving: dict[str, Any], stages: int) -> None:
    if stages > 1 and {"disaggregated", "speculative"} & set(serving):
        pytest.skip("needs a node for each pipeline, or is not available with pipelines")
    runs, stepping = (served(serving=serving, stepping=stepping, stages=stages) for stepping in (False, True))
    assert runs.metrics["steps"] == stepping.metrics["steps"]
    mean = runs.metrics["mean_kv_cache_usage"]
    assert mean == pytest.approx(stepping.metrics["mean_kv_cache_usage"], rel=1e-10)
    if "disaggregated" not in serving:  # at high, caches that are sent hold blocks for longer where they contend
        assert served(serving=serving, lod="high", stages=stages).metrics["mean_kv_cache_usage"] == pytest.approx(
            mean, rel=1e-9
        )


def test_closed_forms_are_the_sums_over_steps() -> None:
    rng = np.random.default_rng(1)
    runs, size = 30, 5
    due = rng.integers(0, 4, (runs, size)).astype(float)
    count, steps = rng.integers(1, 40, runs), rng.integers(0, 1000, runs)
    offset_s, first_s, growth_s = rng.random((3, runs))
    expected = [
        sum(
            due[run, (steps[run] + step) % size]
            * (offset_s[run] + sum(first_s[run] + growth_s[run] * before for before in range(step)))
            for step in range(count[run])
        )
        for run in range(runs)
    ]
    assert _waits(due, steps, count, offset_s, first_s, growth_s) == pytest.approx(expected)
