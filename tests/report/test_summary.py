"""The answer as text: what it says, and that it fits on a narrow terminal."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.metrics.result import RunResult
from simsys.report.summary import headline, headline_lines, summary_text
from simsys.report.text import number
from simsys.simulation import simulate

TRAINING: dict[str, Any] = {
    "name": "gpt2",
    "hardware": {"gpu": "A100-SXM-80GB", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 2},
}
SERVING: dict[str, Any] = {
    "name": "llama",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"max_model_len": 300},
    "workload": {
        "arrivals": {"kind": "constant", "rate": "20 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 200, "high": 300},
        "output_tokens": 50,
        "num_requests": 20,
    },
    "slo": {"ttft": "1 s"},
}


@cache
def result(kind: str) -> RunResult:
    return DistributedAISimulator(SimulationConfig(**{"training": TRAINING, "serving": SERVING}[kind])).run()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (5.8455, "5.85"),
        (999.6, "1,000"),
        (49847.2, "49,800"),
        (1.5e7, "15,000,000"),
        (0.00012345, "0.000123"),
        (None, "-"),
    ],
)
def test_numbers_have_three_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_headline_of_a_training_run() -> None:
    metrics = {
        "mean_iteration_s": 0.164,
        "samples_per_s": 778.86,
        "mfu": 0.36297,
        "exposed_communication_ratio": 0.38729,
    }
    run = replace(result("training"), name="gpt2-medium-ddp", metrics=metrics)
    assert headline(run) == (
        "gpt2-medium-ddp: 164 ms per iteration, 779 samples/s, MFU 36.3 %, communication exposed 38.7 %"
    )


def test_a_long_headline_is_broken_between_its_parts() -> None:
    metrics = {
        "mean_iteration_s": 0.164,
        "samples_per_s": 778.86,
        "mfu": 0.36297,
        "exposed_communication_ratio": 0.387,
    }
    run = replace(result("training"), name="gpt2-medium-ddp-on-a-cluster", metrics=metrics)
    assert headline_lines(run) == [
        "gpt2-medium-ddp-on-a-cluster: 164 ms per iteration, 779 samples/s, MFU 36.3 %,",
        "    communication exposed 38.7 %",
    ]
    assert headline_lines(replace(run, name="gpt2" * 30))[0] == "gpt2" * 30 + ":", "a name is not broken"


@pytest.mark.parametrize(("hfu", "text"), [(0.4, "GPUs, MFU 40.0 %\n"), (0.53, "GPUs, MFU 40.0 %, HFU 53.0 %\n")])
def test_hfu_is_said_if_it_is_another_than_mfu(hfu: float, text: str) -> None:
    run = result("training")
    assert text in summary_text(replace(run, metrics={**run.metrics, "mfu": 0.4, "hfu": hfu}))


@pytest.mark.parametrize(("seconds", "rows"), [(0.0, 0), (0.25, 1)])
@pytest.mark.parametrize(("what", "others"), [("idle", "ranks"), ("bubble", "stages")])
def test_waiting_is_said_if_there_is_any(what: str, others: str, seconds: float, rows: int) -> None:
    run = result("training")
    text = summary_text(replace(run, metrics={**run.metrics, "mean_iteration_s": 1.0, f"{what}_s": seconds}))
    assert text.count(f"  {what:<16}250 ms waiting for other {others} (25.0 %)\n") == rows


def test_the_longest_wait_of_a_stage_is_said_beside_the_busiest_stage() -> None:
    run = result("training")
    metrics = {**run.metrics, "mean_iteration_s": 1.0, "bubble_s": 0.25}
    ranks = {"compute_s": [0.1, 0.6], "optimizer_s": [0.0, 0.0], "bubble_s": [0.75, 0.25]}
    text = summary_text(replace(run, metrics=metrics, ranks=ranks))
    assert " 250 ms waiting for other stages (25.0 %); another stage 750 ms (75.0 %)" in " ".join(text.split())


def test_exposed_communication_is_told_by_axis_if_there_are_several() -> None:
    run = result("training")
    several = replace(
        run, metrics={**run.metrics, "exposed_data_s": 0.125, "exposed_tensor_s": 0.5, "exposed_pipeline_s": 0.0}
    )
    assert "\n    exposed " not in summary_text(run)
    assert "\n    exposed       tensor 500 ms, data 125 ms\n" in summary_text(several)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("data_s", "  data            250 ms waiting for batches per iteration (25.0 %)\n"),
        ("checkpoint_s", "  checkpoints     250 ms stopped per iteration (25.0 %)\n"),
    ],
)
def test_what_holds_training_up_is_said(name: str, line: str) -> None:
    run = result("training")
    assert f"\n  {line.split()[0]} " not in summary_text(run)
    assert line in summary_text(replace(run, metrics={**run.metrics, "mean_iteration_s": 1.0, name: 0.25}))


LATENCIES = {"p50_ttft_ms": 15.1, "p99_ttft_ms": 65.2, "p50_tpot_ms": 7.61}
LATENCY_TEXT = "TTFT p50 15.1 ms / p99 65.2 ms, TPOT p50 7.61 ms"
KEPT_UP = {
    **{"completed": 5, "rejected": 0, "rejected_by_reason": {}, "offered_requests_per_s": 5.8455},
    **{"served_requests_per_s": 5.8455, "served_share": 1.0, "rejected_share": 0.0, "preempted_share": 0.0},
    **{"overloaded": 0, "steady": 1},
}
LOST = {
    "a": {"overloaded": 1, "rejected": 0},
    "b": {"overloaded": 1, "rejected": 3},
    "c": {"overloaded": 0, "rejected": 0},
}
REJECTED = {"rejected": 46, "rejected_share": 0.46, "rejected_by_reason": {"too long": 40, "no room": 6}}


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({}, f"5.85 req/s offered and served, {LATENCY_TEXT}"),
        ({"offered_requests_per_s": None}, f"5.85 req/s, {LATENCY_TEXT}"),
        (
            {**REJECTED, "served_share": 0.54, "offered_requests_per_s": 3.32},
            f"54.0 % of 3.32 req/s served, 46.0 % rejected (too long): {LATENCY_TEXT} of those served",
        ),
        (
            {**REJECTED, "rejected_share": 0.0001, "served_share": 0.9999},
            f">99.9 % of 5.85 req/s served, <0.1 % rejected: {LATENCY_TEXT} of those served",
        ),
        (
            {**REJECTED, "offered_requests_per_s": None},
            f"5.85 req/s, 46.0 % rejected (too long): {LATENCY_TEXT} of those served",
        ),
        (
            {"overloaded": 1, "served_share": 0.25, "preempted_share": 0.1, "offered_requests_per_s": 20.0},
            "OVERLOADED (latencies grow with the length of the run), 25.0 % of 20.0 req/s served, 10.0 % preempted: "
            f"{LATENCY_TEXT} of those served",
        ),
        (
            {"steady": 0, "offered_requests_per_s": 1000.0},
            f"5.85 req/s over the whole run, 1,000 req/s offered, {LATENCY_TEXT}",
        ),
    ],
)
def test_the_headline_of_a_serving_run_begins_with_its_load(figures: dict[str, Any], text: str) -> None:
    run = replace(result("serving"), name="llama3-8b", metrics={**LATENCIES, **KEPT_UP, **figures})
    assert headline(run) == f"llama3-8b: {text}"


def test_where_all_are_rejected_the_headline_says_why() -> None:
    run = replace(result("serving"), metrics={**REJECTED, "completed": 0, "failed": 46})
    assert headline(run) == "llama: no request was completed, 46 rejected: too long"


def test_jobs_that_serve_less_than_is_asked_are_in_the_headline() -> None:
    jobs = [replace(result("serving"), name=name, metrics=metrics) for name, metrics in LOST.items()]
    figures = {"jobs": 3, "makespan_s": 5.0, "mean_wait_s": 0.0, "gpu_allocation": 0.5}
    run = replace(result("training"), name="all", kind="jobs", metrics=figures, jobs=jobs)
    assert headline(run) == (
        "all: 3 jobs in 5 s, waiting 0 s on average, GPUs allocated 50.0 %; OVERLOADED: a, b; rejecting requests: b"
    )


def test_the_speed_of_the_simulator_is_that_of_time_not_of_events() -> None:
    """Medium has few events, which is why it is fast."""
    run = replace(result("serving"), simulated_s=600.0, wall_s=0.15, events=5)
    assert "10 min simulated in 150 ms, 4,000 times faster than the real run; 5 events; repeated" in " ".join(
        summary_text(run).split()
    )
    assert "events/s" not in summary_text(run)


@pytest.mark.parametrize("kind", ["training", "serving"])
def test_everything_fits_in_80_columns(kind: str) -> None:
    lines = summary_text(result(kind)).splitlines()
    first = headline_lines(result(kind))
    assert lines[: len(first)] == first
    assert " ".join(map(str.strip, first)) == headline(result(kind))
    assert max(map(len, lines)) <= 80
    assert summary_text(result(kind)).isascii()


@pytest.mark.parametrize("kind", ["training", "serving"])
def test_every_figure_of_the_table_is_there(kind: str) -> None:
    rows = {
        "training": ["iteration", "computation", "communication", "throughput", "compute", "memory per GPU"],
        "serving": [
            *("TTFT", "TPOT", "ITL", "E2E", "queue", "prefill", "decode", "load", "throughput", "batch", "goodput"),
            *("requests", "cost", "energy", "memory per GPU"),
        ],
    }
    lines = summary_text(result(kind)).splitlines()
    for row in rows[kind]:
        assert len([line for line in lines if line.startswith(f"  {row} ")]) == 1, row


def test_percentiles_stand_below_their_names() -> None:
    run = result("serving")
    lines = summary_text(run).splitlines()
    columns = next(line for line in lines if "p99" in line and ":" not in line).split()[1:]
    values = next(line for line in lines if line.startswith("  TTFT")).split()[1:]
    assert dict(zip(columns, values, strict=True)) == {
        name: number(run.metrics[f"{name}_ttft_ms"]) for name in ("mean", "p50", "p90", "p95", "p99")
    }


def test_rejections_are_counted_by_reason() -> None:
    run = result("serving")
    rejected = run.metrics["failed"]
    assert rejected > 0, "prompts longer than the limit are part of this scenario"
    (reason,) = {text for text in run.rows["reason"] if text}
    text = " ".join(summary_text(run).split())
    assert f"{20 - rejected} completed, {rejected} rejected, 0 preemptions (rejected: {rejected} x {reason})" in text


FIGURES: dict[str, tuple[dict[str, Any], str]] = {
    "a stable load": (
        {
            **{"saturation": "stable", "mean_waiting": 0.5, "mean_running": 12.0, "steady": 1},
            **{"offered_requests_per_s": 20.0, "served_requests_per_s": 15.0},
        },
        "load stable, 15.0 of 20.0 req/s served: mean queueing < service time; 0.500 requests "
        "queued, 12.0 running on average",
    ),
    "an overload": (
        {"saturation": "overloaded", "offered_requests_per_s": None},
        "load overloaded: the queue grows while requests arrive",
    ),
    "a backlog": (
        {"saturation": "backlogged", "steady": 0},
        "load backlogged: mean queueing > service time",
    ),
    "a prefix cache": (
        {"prefixes_known": 1, "prefix_cache_queries": 2000, "prefix_cache_hits": 500},
        "prefix cache 25.0 % of 2,000 prompt tokens hit",
    ),
    "a prefix cache that no request can share": (
        {"prefixes_known": 0, "prefix_cache_queries": 2000, "prefix_cache_hits": 0},
        "prefix cache on, but unused: the workload has no shared prefixes (prefixes, sessions, hash_ids)",
    ),
    "targets": (
        {
            **{
                "request_goodput": 4.0,
                "goodput_requests_per_s": 4.5,
                "slo_attainment": 0.9,
                "slo_ttft_ms": 500.0,
                "slo_attainment_ttft": 0.95,
            },
            **{"slo_tpot_ms": 20.0, "slo_attainment_tpot": 0.93},
        },
        "goodput 4.50 req/s met the targets, 90.0 % of the requests: "
        "TTFT <= 500 ms by 95.0 %, TPOT <= 20 ms by 93.0 %",
    ),
    "requests that did not end": (
        {"in_flight": 3, "in_flight_output_tokens": 40},
        "preemptions, 3 in flight with 40 output tokens",
    ),
    "money": (
        {"usd_per_hour": 6.88, "usd_per_million_tokens": 0.5, "usd_per_million_output_tokens": 2.0},
        "cost 0.500 $ per million tokens, 2.00 $ per million output tokens, at 6.88 $/h",
    ),
    "energy": (
        {"gpu_power_watt": 650.0, "energy_per_token_j": 0.1, "energy_per_output_token_j": 0.7},
        "energy 0.100 J per token, 0.700 J per output token, at 650 W",
    ),
}


@pytest.mark.parametrize("what", FIGURES)
def test_a_serving_run_says_what_it_found(what: str) -> None:
    figures, said = FIGURES[what]
    run = result("serving")
    text = summary_text(replace(run, metrics={**run.metrics, **figures}))
    assert said in " ".join(text.split())
    assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize("missing", ["usd_per_hour", "max_kv_cache_usage", "mean_waiting"])
def test_what_is_not_known_is_not_said(missing: str) -> None:
    run = result("serving")
    said, without = (
        summary_text(replace(run, metrics={name: run.metrics[name] for name in run.metrics if name != each}))
        for each in ("", missing)
    )
    word = {"usd_per_hour": "$ per", "max_kv_cache_usage": "KV cache used", "mean_waiting": "requests queued"}[missing]
    assert word in " ".join(said.split())
    assert word not in " ".join(without.split())


def test_memory_is_what_is_held_of_what_there_is() -> None:
    run = result("serving")
    text = " ".join(summary_text(run).split())
    assert "GiB of 79.1 GiB: weights 15.0 GiB" in text


def test_a_run_without_completed_requests_has_an_answer() -> None:
    prompts = {"kind": "uniform", "low": 50, "high": 300}  # so that a short one could come
    workload = {**SERVING["workload"], "prompt_tokens": prompts}
    scenario = {**SERVING, "serving": {"max_model_len": 100}, "workload": workload}
    run = simulate(SimulationConfig(**scenario))
    assert (
        headline(run) == "llama: no request was completed, 20 rejected: longer than the model's context of 100 tokens"
    )
    assert "  TTFT                       -" in summary_text(run)


def test_what_holds_a_run_up_comes_with_a_remedy() -> None:
    run = result("training")
    text = summary_text(run)
    for found in find_bottlenecks(run):
        said = f"- {found.kind}: {found.evidence} > {found.recommendations[0]}"
        assert said in " ".join(text.split())
    assert ("bottlenecks\n" in text) == bool(find_bottlenecks(run))


def test_what_the_figures_rest_on_and_what_the_run_took_are_said() -> None:
    run = result("training")
    text = summary_text(run)
    for assumption in run.assumptions:
        assert " ".join(assumption.split()) in " ".join(text.split())
    assert "level of detail medium, contention fair (max-min), none met: " in text
    assert f"; {run.events:,} events" in " ".join(text.split())


def test_the_facade_gives_the_same_text() -> None:
    simulator = DistributedAISimulator(SimulationConfig(**TRAINING))
    assert simulator.get_summary() == summary_text(simulator.result or simulator.run())
