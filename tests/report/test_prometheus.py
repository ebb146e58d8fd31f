"""vLLM's metrics of a run: in the format that Prometheus reads, and with the run's numbers."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simsys.metrics.result import RunResult
from simsys.report.prometheus import REQUEST_S, TOKEN_S, TTFT_S, write_prometheus
from tests.helpers.exposition import Family, read_exposition
from tests.helpers.places import ROOT
from tests.helpers.played_serving import Played, play

GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]
COUNTERS = ["prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "prompt_tokens", "generation_tokens"]
COUNTERS += ["prompt_tokens_cached"]
COUNTERS += ["request_success"]
HISTOGRAMS = {
    "time_to_first_token_seconds": TTFT_S,
    "inter_token_latency_seconds": TOKEN_S,
    "time_per_output_token_seconds": TOKEN_S,
    "request_time_per_output_token_seconds": TOKEN_S,
    "e2e_request_latency_seconds": REQUEST_S,
    "request_queue_time_seconds": REQUEST_S,
    "request_inference_time_seconds": REQUEST_S,
    "request_prefill_time_seconds": REQUEST_S,
    "request_decode_time_seconds": REQUEST_S,
    "request_prompt_tokens": (1, 2, 5, 10, 20, 50),
    "request_generation_tokens": (1, 2, 5, 10, 20, 50),
    "request_max_num_generation_tokens": (1, 2, 5, 10, 20, 50),
    "request_params_max_tokens": (1, 2, 5, 10, 20, 50),
    "request_params_n": (1, 2, 5, 10, 20),
    "iteration_tokens_total": (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
}


@cache
def played() -> Played:
    return play(4, mixes=False)


def result() -> RunResult:
    collector = played().collector
    return RunResult(
        "r", "serving", "medium", "fifo", collector.metrics(), collector.rows(), requests=collector.requests
    )


def written(run: RunResult, model: str = "Llama3-8B") -> dict[str, Family]:
    file = io.StringIO()
    write_prometheus(run, model, file)
    return read_exposition(file.getvalue())


DASHBOARDS = (
    *("e2e_request_latency_seconds", "prompt_tokens_total", "generation_tokens_total", "inter_token_latency_seconds"),
    *("num_requests_running", "num_requests_waiting", "time_to_first_token_seconds", "kv_cache_usage_perc"),
    *("request_prompt_tokens", "request_generation_tokens", "request_success_total", "request_queue_time_seconds"),
    *("request_prefill_time_seconds", "request_decode_time_seconds", "request_max_num_generation_tokens"),
)
"""Names of vLLM's dashboards grafana.json, performance_statistics.json and query_statistics.json (November 2025)."""


def test_every_name_of_vllms_dashboards_is_there() -> None:
    families = written(result())
    assert [name for name in DASHBOARDS if f"vllm:{name}" not in families] == []


def test_what_cannot_be_there_is_listed_in_the_docs() -> None:
    page = (ROOT / "docs" / "explanation" / "serving.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(vllm:\w+)`", page.partition("### Names of vLLM's metrics")[2], re.MULTILINE)
    assert len(listed) > 8
    assert set(listed).isdisjoint(written(result()))


def test_the_names_and_types_are_those_of_vllm() -> None:
    kinds = {name: family.kind for name, family in written(result()).items() if name.startswith("vllm:")}
    assert kinds == {
        **{f"vllm:{name}": "gauge" for name in GAUGES},
        **{f"vllm:{name}_total": "counter" for name in COUNTERS},
        **{f"vllm:{name}": "histogram" for name in HISTOGRAMS},
    }


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_the_buckets_are_those_of_vllm(name: str) -> None:
    limits = [limit for limit, _ in written(result())[f"vllm:{name}"].buckets]
    assert limits == [*HISTOGRAMS[name], np.inf]


def values(name: str) -> np.ndarray:
    """What a histogram has observed, from the tokens one by one."""
    run, log = played(), played().collector.log
    first_s = np.array([times_s[0] for times_s in run.tokens_s[:-1]])
    last_s = np.array([times_s[-1] for times_s in run.tokens_s[:-1]])
    arrival_s, admitted_s = np.array(log.arrival_s)[:-1], np.array(log.admitted_s)[:-1]
    outputs = np.array(log.requests.output_tokens)[:-1]
    several = outputs > 1
    steps = log.steps.columns()
    return {
        "time_to_first_token_seconds": first_s - arrival_s,
        "inter_token_latency_seconds": run.gaps_s,
        "time_per_output_token_seconds": run.gaps_s,
        "request_time_per_output_token_seconds": (last_s - first_s)[several] / (outputs[several] - 1),
        "e2e_request_latency_seconds": last_s - arrival_s,
        "request_queue_time_seconds": admitted_s - arrival_s,
        "request_inference_time_seconds": last_s - admitted_s,
        "request_prefill_time_seconds": first_s - admitted_s,
        "request_decode_time_seconds": last_s - first_s,
        "request_prompt_tokens": np.array(log.requests.prompt_tokens)[:-1],
        "request_generation_tokens": outputs,
        "request_max_num_generation_tokens": outputs,
        "request_params_max_tokens": outputs,
        "request_params_n": np.ones(outputs.size),
        "iteration_tokens_total": np.repeat(
            np.add(steps["decode_tokens"], steps["prompt_tokens"]), np.array(steps["steps"], dtype=int)
        ),
    }[name]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_observations_are_counted_up_to_each_limit(name: str) -> None:
    family, observed = written(result())[f"vllm:{name}"], values(name)
    for limit, count in family.buckets:
        if np.abs(observed - limit).min() > 1e-9 or name.endswith("tokens"):
            assert count == np.count_nonzero(observed <= limit)
    assert family.value("_count") == observed.size
    assert family.value("_sum") == pytest.approx(observed.sum())


def test_an_observation_at_a_limit_is_within_it() -> None:
    run = result()
    family = written(run)["vllm:request_generation_tokens"]
    assert dict(family.buckets)[5.0] == sum(tokens <= 5 for tokens in run.requests.requests.output_tokens[:-1])


def test_counters_are_those_of_the_run() -> None:
    run = result()
    found, log = written(run), played().collector.log
    assert found["vllm:num_preemptions_total"].value() == len(log.preempted_s) > 0
    assert found["vllm:prompt_tokens_total"].value() == sum(log.requests.prompt_tokens[:-1])
    assert found["vllm:generation_tokens_total"].value() == sum(log.requests.output_tokens[:-1])
    assert found["vllm:request_success_total"].value(finished_reason="length") == 39
    assert found["vllm:request_success_total"].value(finished_reason="abort") == 0
    assert found["simsys:requests_rejected_total"].value(reason="too long") == 1
    assert [found[f"vllm:{name}"].value() for name in GAUGES] == [0, 0, 0]


def test_what_is_under_way_at_the_end_is_told() -> None:
    collector = play(4).collector
    collector.log.finished_s[0] = collector.log.finished_s[1] = -1.0
    collector.log.admitted_s[1] = -1.0
    run = RunResult("r", "serving", "m", "f", collector.metrics(), collector.rows(), requests=collector.requests)
    found = written(run)
    assert [found[f"vllm:{name}"].value() for name in GAUGES[:2]] == [1, 1]


def test_labels_are_escaped() -> None:
    model = 'a "b"\\c\nd'
    run = replace(result(), metrics={**result().metrics, "rejected_by_reason": {'no "room"': 3}})
    found = written(run, model)
    ((_, labels),) = found["vllm:num_requests_running"].samples
    assert dict(labels) == {"model_name": 'a \\"b\\"\\\\c\\nd', "engine": "0"}
    assert found["simsys:requests_rejected_total"].value(reason='no \\"room\\"') == 3
