"""Every figure of a serving run from a log written by hand, with the definitions of ``vllm bench serve``."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from simsys.metrics.collector import ServingMetrics
from simsys.metrics.serving import ServingLog, serving_metrics
from simsys.serving.requests import RequestTable

MS = 1e-3


def runs(step_s: Iterable[float], decode_tokens: Iterable[float], prompt_tokens: Iterable[float]) -> list[float]:
    """Single steps, as probes hear of them."""
    return [
        number
        for row in zip(step_s, decode_tokens, prompt_tokens, strict=True)
        for number in (0.0, 1.0, row[1], row[2], row[0], 0.0)
    ]


def log() -> ServingLog:
    """Four completed requests, one rejected, one that has not ended; and three steps."""
    made = ServingLog(RequestTable([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [10, 20, 30, 40, 50, 60], [1, 5, 11, 3, 7, 7]))
    made.admitted_s = [0.0, 1.0 + 2 * MS, 2.0 + 4 * MS, 3.0 + 6 * MS, -1.0, 5.0]
    made.first_token_s = [10 * MS, 1.0 + 20 * MS, 2.0 + 30 * MS, 3.0 + 40 * MS, -1.0, 5.1]
    #                     1 token   4 times 10 ms  10 times 20 ms  twice 30 ms
    made.finished_s = [10 * MS, 1.0 + 60 * MS, 2.0 + 230 * MS, 3.0 + 100 * MS, -1.0, -1.0]
    made.rejected = {4: "too long"}
    made.preemptions = [0, 2, 0, 1, 0, 0]
    made.steps.extend(runs([10 * MS, 50 * MS, 30 * MS], [3, 0, 1], [0, 40, 5]))
    return made


EXPECTED = {
    "duration": 3.1,
    "completed": 4,
    "failed": 1,
    "total_input_tokens": 100,
    "total_output_tokens": 20,
    "request_throughput": 4 / 3.1,
    "output_throughput": 20 / 3.1,
    "total_token_throughput": 120 / 3.1,
    "preemptions": 3,
    "steps": 3,
    # 10, 20, 30, 40 ms
    "mean_ttft_ms": 25.0,
    "median_ttft_ms": 25.0,
    "std_ttft_ms": 125**0.5,
    "p50_ttft_ms": 25.0,
    "p90_ttft_ms": 37.0,
    "p95_ttft_ms": 38.5,
    "p99_ttft_ms": 39.7,
    # 10, 20, 30 ms: the request with one output token has no TPOT
    "mean_tpot_ms": 20.0,
    "median_tpot_ms": 20.0,
    "std_tpot_ms": (200 / 3) ** 0.5,
    "p90_tpot_ms": 28.0,
    "p99_tpot_ms": 29.8,
    # 10, 60, 230, 100 ms
    "mean_e2el_ms": 100.0,
    "median_e2el_ms": 80.0,
    "p90_e2el_ms": 191.0,
    "p99_e2el_ms": 226.1,
    # 0, 2, 4, 6 ms
    "mean_queue_ms": 3.0,
    "p99_queue_ms": 5.94,
    # 10 ms three times and 30 ms once; the step without decoding sequences is no gap
    "mean_itl_ms": 15.0,
    "median_itl_ms": 10.0,
    "std_itl_ms": 75**0.5,
    "p50_itl_ms": 10.0,
    "p90_itl_ms": 30.0,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_figures_of_a_known_log(name: str) -> None:
    assert serving_metrics(log(), {})[name] == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize(
    ("slo", "met"),
    [
        ({}, None),
        ({"ttft": 35 * MS}, 3),
        ({"ttft": 30.0001 * MS}, 3),
        ({"ttft": 29 * MS}, 2),
        ({"tpot": 15 * MS}, 2),  # a request of one token has no gaps between tokens that could be too long
        ({"ttft": 15 * MS, "tpot": 15 * MS}, 1),
        ({"e2el": 100.0001 * MS}, 3),
        ({"ttft": 1.0, "tpot": 1.0, "e2el": 1.0}, 4),
        ({"e2el": 1 * MS}, 0),
    ],
)
def test_goodput_counts_requests_that_meet_all_targets(slo: dict[str, float], met: int | None) -> None:
    goodput = serving_metrics(log(), slo)["request_goodput"]
    assert goodput == (None if met is None else pytest.approx(met / 3.1))


def test_percentiles_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    count = 200
    arrival_s = np.sort(rng.random(count))
    made = ServingLog(RequestTable(arrival_s.tolist(), [1] * count, rng.integers(1, 50, count).tolist()))
    made.admitted_s = arrival_s.tolist()
    made.first_token_s = (arrival_s + rng.random(count)).tolist()
    made.finished_s = [first + rng.random() for first in made.first_token_s]
    metrics = serving_metrics(made, {})
    ttft_ms = (np.array(made.first_token_s) - arrival_s) * 1e3
    e2el_ms = (np.array(made.finished_s) - arrival_s) * 1e3
    for name, values_ms in (("ttft", ttft_ms), ("e2el", e2el_ms)):
        for percentile in (50, 90, 95, 99):
            assert metrics[f"p{percentile}_{name}_ms"] == pytest.approx(np.percentile(values_ms, percentile))
        assert metrics[f"std_{name}_ms"] == pytest.approx(np.std(values_ms))


def test_inter_token_latency_pools_the_gaps_of_all_requests() -> None:
    rng = np.random.default_rng(6)
    made = log()
    # 100 runs of up to 9 steps, whose durations grow
    count, tokens = rng.integers(1, 10, 100), rng.integers(0, 20, 100)
    first_s, growth_s = rng.random(100), rng.random(100) / 100
    made.steps = array("d", np.column_stack([first_s * 0, count, tokens, tokens, first_s, growth_s]).ravel().tolist())
    rows = zip(count, first_s, growth_s, strict=True)
    step_s = np.concatenate([first + growth * np.arange(n) for n, first, growth in rows])
    gaps_ms = np.repeat(step_s * 1e3, np.repeat(tokens, count))
    metrics = serving_metrics(made, {})
    assert metrics["mean_itl_ms"] == pytest.approx(gaps_ms.mean())
    assert metrics["std_itl_ms"] == pytest.approx(gaps_ms.std())
    for percentile in (50, 90, 95, 99):
        exact = np.percentile(gaps_ms, percentile, method="inverted_cdf")
        assert metrics[f"p{percentile}_itl_ms"] == pytest.approx(exact)
        assert metrics[f"p{percentile}_itl_ms"] == pytest.approx(np.percentile(gaps_ms, percentile), rel=0.01)


def test_where_nothing_was_completed_times_are_missing_and_rates_zero() -> None:
    made = ServingLog(RequestTable([0.0, 1.0], [10, 20], [1, 5]))
    made.rejected = {0: "too long", 1: "too long"}
    metrics = serving_metrics(made, {"ttft": 1.0})
    assert (metrics["completed"], metrics["failed"], metrics["duration"]) == (0, 2, 0.0)
    assert metrics["request_throughput"] == metrics["output_throughput"] == metrics["request_goodput"] == 0.0
    times = {name: value for name, value in metrics.items() if name.endswith("_ms")}
    assert len(times) == 5 * 7
    assert set(times.values()) == {None}


def test_only_single_tokens_leave_tpot_and_itl_missing() -> None:
    made = ServingLog(RequestTable([0.0], [10], [1]))
    made.admitted_s, made.first_token_s, made.finished_s = [0.0], [0.5], [0.5]
    metrics = serving_metrics(made, {})
    assert metrics["mean_ttft_ms"] == metrics["mean_e2el_ms"] == 500.0
    assert metrics["mean_tpot_ms"] is metrics["p99_itl_ms"] is None


def test_rows_have_a_state_and_no_invented_times() -> None:
    rows = log().rows()
    assert rows["state"] == ["completed"] * 4 + ["rejected", "unfinished"]
    assert rows["reason"][4] == "too long"
    assert rows["reason"].count("") == 5
    assert rows["finished_s"][4:] == [None, None]
    assert rows["first_token_s"][4:] == [None, 5.1]
    assert rows["admitted_s"][0] == 0.0, "a time of zero is a time"
    assert {len(column) for column in rows.values()} == {6}


def test_the_collector_books_what_it_hears() -> None:
    collector = ServingMetrics(RequestTable([0.0, 0.0], [4, 4], [3, 1]), {})
    calls: list[tuple[str, Any]] = [
        ("request_admitted", (0, 0.5)),
        ("steps", (0, [0.5, 1, 0, 4, 0.5, 0.0])),
        ("request_first_token", (0, 1.0)),
        ("request_preempted", (0, 1.5)),
        ("request_admitted", (0, 1.75)),  # again, after the preemption
        ("steps", (0, [2.0, 1, 1, 0, 1.0, 0.0])),
        ("request_finished", (0, 3.0)),
        ("request_rejected", (1, "too long", 3.0)),
    ]
    for hook, arguments in calls:
        getattr(collector, hook)(*arguments)
    metrics = collector.metrics()
    assert metrics["mean_queue_ms"] == 500.0, "the first admission counts"
    assert metrics["mean_ttft_ms"] == 1000.0
    assert metrics["mean_tpot_ms"] == 1000.0
    assert metrics["mean_itl_ms"] == 1000.0
    assert (metrics["preemptions"], metrics["failed"], metrics["steps"]) == (1, 1, 2)
    assert collector.end_s == 3.0
    assert collector.rows()["state"] == ["completed", "rejected"]
