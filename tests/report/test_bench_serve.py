"""The result of a run with the keys of ``vllm bench serve``."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.metrics.latencies import Latencies
from simsys.metrics.result import RunResult
from simsys.report.bench_serve import bench_result, bench_text

SCENARIO: dict[str, Any] = {
    "name": "llama",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"max_model_len": 300},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "20 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 200, "high": 260},
        "output_tokens": 50,
        "num_requests": 30,
    },
    "slo": {"ttft": "1 s"},
}
SET_UP = ["endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts"]
TRAFFIC = ["request_rate", "burstiness", "max_concurrency"]
FIGURES = ["duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput"]
FIGURES += ["request_goodput", "output_throughput", "total_token_throughput", "max_output_tokens_per_s"]
FIGURES += ["max_concurrent_requests"]
STATISTICS = ["mean", "median", "std", "p50", "p90", "p95", "p99"]
LATENCIES = [f"{each}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for each in STATISTICS]
DETAILS = ["input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"]


def config(*, detailed: bool = False, **workload: Any) -> SimulationConfig:
    return SimulationConfig(
        **{**SCENARIO, "workload": {**SCENARIO["workload"], **workload}}, simulation={"save_detailed": detailed}
    )


@cache
def result() -> RunResult:
    return DistributedAISimulator(config()).run()


@pytest.mark.parametrize("detailed", [False, True])
def test_the_keys_are_those_of_vllm_and_ours_are_apart(detailed: bool) -> None:
    """As `vllm/benchmarks/serve.py` writes them, without the date."""
    found = bench_result(config(detailed=detailed), result())
    expected = {*SET_UP, *TRAFFIC, *FIGURES, *LATENCIES, "sim"} | ({*DETAILS} if detailed else set())
    assert set(found) == expected


def test_the_figures_are_those_of_the_run() -> None:
    metrics = result().metrics
    found = bench_result(config(), result())
    assert {name: found[name] for name in (*FIGURES, *LATENCIES)} == {
        name: metrics[name] for name in (*FIGURES, *LATENCIES)
    }
    rest = {name: metrics[name] for name in metrics if name not in (*FIGURES, *LATENCIES)}
    assert found["sim"].items() >= rest.items()
    assert found["num_prompts"] == 30 == found["completed"] + found["failed"]
    assert found["failed"] > 0


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ({"kind": "poisson", "rate": "20 req/s"}, (20.0, 1.0, None)),
        ({"kind": "gamma", "rate": "20 req/s", "burstiness": 0.5}, (20.0, 0.5, None)),
        ({"kind": "constant", "rate": "20 req/s"}, (20.0, None, None)),
        ({"kind": "all_at_once"}, ("inf", None, None)),
    ],
)
def test_the_traffic_is_what_was_asked_for(arrivals: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = bench_result(config(arrivals=arrivals), result())
    assert tuple(found[name] for name in TRAFFIC) == expected


def test_details_have_a_value_for_each_request_and_give_the_figures() -> None:
    run = result()
    found = bench_result(config(detailed=True), run)
    assert {len(found[name]) for name in DETAILS} == {30}
    assert found["input_lens"] == list(run.rows["prompt_tokens"])
    assert sum(found["output_lens"]) == found["total_output_tokens"]
    times = Latencies(run.rows)
    assert sum(found["ttfts"]) == pytest.approx(times.ttft_s.sum())
    gaps_s = [gap_s for gaps in found["itls"] for gap_s in gaps]
    assert sum(gaps_s) / len(gaps_s) == pytest.approx(found["mean_itl_ms"] / 1e3)
    for request, reason in enumerate(run.rows["reason"]):
        assert found["errors"][request] == reason
        ends_s = found["ttfts"][request] + sum(found["itls"][request])
        if not reason:
            assert found["start_times"][request] + ends_s == pytest.approx(run.rows["finished_s"][request])
        else:
            assert (ends_s, found["output_lens"][request]) == (0.0, 0)


def test_requests_that_no_client_sent_are_left_out() -> None:
    """A closed loop that ends at its time has requests whose client still waits for an answer."""
    given = config(detailed=True, arrivals={"kind": "closed_loop", "concurrency": 2})
    timed = given.model_copy(update={"simulation": given.simulation.model_copy(update={"duration": 2.0})})
    run = DistributedAISimulator(timed).run()
    assert "not sent" in run.rows["state"]
    found = bench_result(timed, run)
    assert {len(found[name]) for name in DETAILS} == {found["num_prompts"]}
    assert min(found["start_times"]) >= 0.0
    assert found["errors"].count("in flight") == run.metrics["in_flight"] > 0


@pytest.mark.parametrize("detailed", [False, True])
def test_it_is_json_with_a_line_for_each_key(detailed: bool) -> None:
    found = bench_result(config(detailed=detailed), result())
    text = bench_text(found)
    assert json.loads(text) == json.loads(json.dumps(found))
    lines = text.splitlines()
    assert [line for line in lines if line.startswith('  "ttfts"')] == [
        f'  "ttfts": {json.dumps(found["ttfts"])},' for _ in range(detailed)
    ]
