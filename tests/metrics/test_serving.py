"""Every figure of a serving run from a log written by hand, with the definitions of ``vllm bench serve``."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.metrics.latencies import Latencies
from simsys.metrics.serving import PERCENTILES, _statistics, serving_metrics
from simsys.metrics.serving_collector import ServingMetrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.token_times import gaps_by_request
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate
from tests.helpers.played_serving import play

MS = 1e-3


def log() -> ServingLog:
    """Four completed requests, one rejected, one that has not ended; and three steps."""
    made = ServingLog(RequestTable([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [10, 20, 30, 40, 50, 60], [1, 5, 11, 3, 7, 7]))
    made.admitted_s = array("d", [0.0, 1.0 + 2 * MS, 2.0 + 4 * MS, 3.0 + 6 * MS, -1.0, 5.0])
    made.first_token_s = array("d", [10 * MS, 1.0 + 20 * MS, 2.0 + 30 * MS, 3.0 + 40 * MS, -1.0, 5.1])
    #                                1 token   4 times 10 ms  10 times 20 ms  twice 30 ms
    made.finished_s = array("d", [10 * MS, 1.0 + 60 * MS, 2.0 + 230 * MS, 3.0 + 100 * MS, -1.0, -1.0])
    made.rejected = {4: "too long"}
    made.preemptions = array("I", [0, 2, 0, 1, 0, 0])
    for length_s, decode_tokens in ((10 * MS, 3), (50 * MS, 0), (30 * MS, 1)):
        made.steps.add(0, [1.0, 1, decode_tokens, 40, length_s, 0.0])
    made.lookups.extend((0.0, 25, 100))
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
    "mean_batch_size": 2.0,
    "in_flight": 1,
    "in_flight_output_tokens": 0,
    "prefixes_known": 0,
    "prefix_cache_queries": 100,
    "prefix_cache_hits": 25,
    # From 0 s on, arrivals are a second apart, and each request ends in the second of its arrival.
    "max_concurrent_requests": 1,
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
    # 10, 18, 26, 34 ms
    "mean_prefill_ms": 22.0,
    "p50_prefill_ms": 22.0,
    # 0, 40, 200, 60 ms
    "mean_decode_ms": 75.0,
    "p90_decode_ms": 158.0,
    # 10, 58, 226, 94 ms
    "mean_inference_ms": 97.0,
    "median_inference_ms": 76.0,
    # 10 ms three times and 30 ms once; the step without decoding sequences is no gap
    "mean_itl_ms": 15.0,
    "median_itl_ms": 10.0,
    "std_itl_ms": 75**0.5,
    "p50_itl_ms": 10.0,
    "p90_itl_ms": 24.0,
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


def test_attainment_is_of_all_requests_that_ended() -> None:
    """Of four that were completed and one that was rejected."""
    metrics = serving_metrics(log(), {"ttft": 35 * MS, "tpot": 15 * MS})
    assert metrics["slo_attainment_ttft"] == pytest.approx(3 / 5)
    assert metrics["slo_attainment_tpot"] == pytest.approx(2 / 5)
    assert metrics["slo_attainment"] == pytest.approx(2 / 5)
    assert not [name for name in serving_metrics(log(), {}) if name.startswith("slo")]


def test_rejections_are_counted_by_reason_the_most_frequent_first() -> None:
    made = log()
    made.rejected = {0: "too long", 1: "no memory", 2: "a", 3: "no memory"}
    metrics = serving_metrics(made, {})
    assert list(metrics["rejected_by_reason"].items()) == [("no memory", 2), ("a", 1), ("too long", 1)]
    assert metrics["rejected"] == metrics["failed"] == 4


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_vllms_own_computation_token_by_token(seed: int, mixes: bool) -> None:
    """As ``calculate_metrics`` of vllm/benchmarks/serve.py does it, from a list of token times for each request."""
    played = play(seed, mixes=mixes)
    metrics = played.collector.metrics()
    requests = played.collector.log.requests
    arrivals_s, tokens_s = requests.arrival_s[:-1], played.tokens_s[:-1]
    whole = [(arrival, times[-1]) for arrival, times in zip(arrivals_s, tokens_s, strict=True)]
    ttfts = [times[0] - arrival for times, arrival in zip(tokens_s, arrivals_s, strict=True)]
    e2els = [times[-1] - arrival for times, arrival in zip(tokens_s, arrivals_s, strict=True)]
    tpots = [(times[-1] - times[0]) / (len(times) - 1) for times in tokens_s if len(times) > 1]
    for name, values_s in {"ttft": ttfts, "e2el": e2els, "tpot": tpots, "itl": played.gaps_s}.items():
        assert metrics[f"mean_{name}_ms"] == pytest.approx(np.mean(values_s) * 1e3)
        assert metrics[f"std_{name}_ms"] == pytest.approx(np.std(values_s) * 1e3)
        assert metrics[f"median_{name}_ms"] == pytest.approx(np.median(values_s) * 1e3)
        for percentile in (50, 90, 95, 99):
            assert metrics[f"p{percentile}_{name}_ms"] == pytest.approx(np.percentile(values_s, percentile) * 1e3)
    start_s = min(arrivals_s)
    seconds = range(int(max(map(max, tokens_s)) - start_s) + 2)
    per_second = np.bincount([int(time_s - start_s) for times in tokens_s for time_s in times])
    assert metrics["max_output_tokens_per_s"] == pytest.approx(per_second.max(), abs=1)
    under_way = [
        sum(int(arrival_s - start_s) <= second <= int(end_s - start_s) for arrival_s, end_s in whole)
        for second in seconds
    ]
    assert metrics["max_concurrent_requests"] == max(under_way)
    assert metrics["preemptions"] == len(played.running_s) - 39


@pytest.mark.parametrize("seed", range(5))
def test_times_of_a_request_add_up(seed: int) -> None:
    times = Latencies(play(seed).collector.rows())
    assert (times.ttft_s <= times.e2el_s).all()
    assert (times.queue_s >= 0).all()
    assert times.queue_s + times.prefill_s == pytest.approx(times.ttft_s)
    assert times.prefill_s + times.decode_s == pytest.approx(times.inference_s)
    assert times.queue_s + times.inference_s == pytest.approx(times.e2el_s)
    assert times.ttft_s + times.tpot_s * (times.output_tokens - 1) == pytest.approx(times.e2el_s)


def test_percentiles_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    count = 200
    arrival_s = np.sort(rng.random(count))
    made = ServingLog(RequestTable(arrival_s.tolist(), [1] * count, rng.integers(1, 50, count).tolist()))
    made.admitted_s = array("d", arrival_s)
    made.first_token_s = array("d", arrival_s + rng.random(count))
    made.finished_s = array("d", [first + rng.random() for first in made.first_token_s])
    metrics = serving_metrics(made, {})
    ttft_ms = (np.array(made.first_token_s) - arrival_s) * 1e3
    e2el_ms = (np.array(made.finished_s) - arrival_s) * 1e3
    for name, values_ms in (("ttft", ttft_ms), ("e2el", e2el_ms)):
        for percentile in (50, 90, 95, 99):
            assert metrics[f"p{percentile}_{name}_ms"] == pytest.approx(np.percentile(values_ms, percentile))
        assert metrics[f"std_{name}_ms"] == pytest.approx(np.std(values_ms))


def test_rejected_requests_before_the_first_that_is_served_take_no_time() -> None:
    made = ServingLog(RequestTable([0.0, 0.0, 3.0], [10, 20, 30], [1, 1, 1]))
    made.admitted_s, made.first_token_s = array("d", [-1.0, -1.0, 3.0]), array("d", [-1.0, -1.0, 3.1])
    made.finished_s = array("d", [-1.0, -1.0, 3.1])
    made.rejected = {0: "too long", 1: "too long"}
    metrics = serving_metrics(made, {})
    assert (metrics["completed"], metrics["failed"]) == (1, 2)
    assert (metrics["max_output_tokens_per_s"], metrics["max_concurrent_requests"]) == (1, 1)


def test_where_nothing_was_completed_times_are_missing_and_rates_zero() -> None:
    made = ServingLog(RequestTable([0.0, 1.0], [10, 20], [1, 5]))
    made.rejected = {0: "too long", 1: "too long"}
    metrics = serving_metrics(made, {"ttft": 1.0})
    assert (metrics["completed"], metrics["failed"], metrics["duration"]) == (0, 2, 0.0)
    assert metrics["request_throughput"] == metrics["output_throughput"] == metrics["request_goodput"] == 0.0
    times = {name: value for name, value in metrics.items() if name.endswith("_ms") and name != "slo_ttft_ms"}
    assert len(times) == 8 * 7
    assert set(times.values()) == {None}


def test_only_single_tokens_leave_tpot_and_itl_missing() -> None:
    made = ServingLog(RequestTable([0.0], [10], [1]))
    made.admitted_s[0], made.first_token_s[0], made.finished_s[0] = 0.0, 0.5, 0.5
    metrics = serving_metrics(made, {})
    assert metrics["mean_ttft_ms"] == metrics["mean_e2el_ms"] == 500.0
    assert metrics["mean_tpot_ms"] is metrics["p99_itl_ms"] is None


def test_rows_have_a_state_and_no_invented_times() -> None:
    rows = log().rows()
    assert rows["state"] == ["completed"] * 4 + ["rejected", "in flight"]
    assert rows["reason"][4] == "too long"
    assert rows["reason"].count("") == 5
    assert rows["finished_s"][4:] == [None, None]
    assert rows["first_token_s"][4:] == [None, 5.1]
    assert rows["admitted_s"][0] == 0.0, "a time of zero is a time"
    assert {len(column) for column in rows.values()} == {6}
    assert np.isnan(np.asarray(rows["finished_s"])).tolist() == [False] * 4 + [True] * 2


def test_the_collector_books_what_it_hears() -> None:
    collector = ServingMetrics(RequestTable([0.0, 0.0], [4, 4], [3, 1]), {})
    calls: list[tuple[str, Any]] = [
        ("request_admitted", (0, 0.5)),
        ("prefix_lookup", (0, 3, 4, 0.5)),
        ("request_first_token", (0, 1.0)),
        ("request_preempted", (0, 1.5)),
        ("request_admitted", (0, 1.75)),  # again, after the preemption
        ("prefix_lookup", (0, 4, 5, 1.75)),  # it finds itself, which is no hit
        ("request_resumed", (0, 2.0)),
        ("steps", (0, [0.5, 1, 0, 4, 0.5, 0.0, 1.75, 1, 0, 5, 0.25, 0.0, 2.0, 1, 1, 0, 1.0, 0.0])),
        ("request_finished", (0, 3.0)),
        ("request_rejected", (1, "too long", 3.0)),
    ]
    for hook, arguments in calls:
        getattr(collector, hook)(*arguments)
    metrics = collector.metrics()
    assert metrics["mean_queue_ms"] == 500.0, "the first admission counts"
    assert metrics["mean_ttft_ms"] == 1000.0
    assert metrics["mean_tpot_ms"] == 1000.0
    assert metrics["mean_itl_ms"] == 750.0, "from the loss at 1.5 s, after a step not told here, to 2 s, and to 3 s"
    assert (metrics["prefix_cache_queries"], metrics["prefix_cache_hits"]) == (4, 3)
    assert (metrics["preemptions"], metrics["failed"], metrics["steps"]) == (1, 1, 3)
    assert collector.end_s == 3.0
    assert collector.rows()["state"] == ["completed", "rejected"]


def scenario(**changes: Any) -> SimulationConfig:
    parallelism = {"tp_degree": 1, "dp_degree": 1, **changes.pop("parallelism", {})}
    gpus = parallelism["tp_degree"] * parallelism["dp_degree"] * parallelism.get("pp_stages", 1)
    return SimulationConfig(
        **{
            "hardware": {"gpu": "H100-SXM", "gpus_per_node": gpus},
            "model": {"name": "Llama3-8B"},
            "parallelism": parallelism,
            "serving": {},
            "workload": {
                "arrivals": {"kind": "poisson", "rate": "20 req/s"},
                "prompt_tokens": {"kind": "uniform", "low": 100, "high": 400},
                "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
                "num_requests": 80,
            },
            **changes,
        }
    )


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize(("tensor", "data"), [(1, 1), (2, 2)])
def test_the_figures_of_a_real_run_agree_with_each_other(lod: str, tensor: int, data: int) -> None:
    config = scenario(parallelism={"tp_degree": tensor, "dp_degree": data}, simulation={"lod": lod})
    result = DistributedAISimulator(config).run()
    metrics, log = result.metrics, result.requests
    assert log is not None
    times = Latencies(result.rows, log.api_s)
    assert list(log.caches) == [tensor * replica for replica in range(data)]
    outputs = metrics["total_output_tokens"]
    assert metrics["mean_itl_ms"] * (outputs - 80) == pytest.approx(1e3 * times.decode_s.sum())
    assert metrics["mean_running"] * result.simulated_s == pytest.approx(times.inference_s.sum())
    assert metrics["mean_waiting"] * result.simulated_s == pytest.approx(times.queue_s.sum())
    assert 0 < metrics["mean_kv_cache_usage"] < metrics["max_kv_cache_usage"] < 1
    length_s = np.diff(result.timeline["time_s"], append=result.simulated_s)
    assert (np.array(result.timeline["output_tokens_per_s"]) * length_s).sum() == pytest.approx(outputs)


def test_both_levels_of_detail_tell_the_same() -> None:
    one, other = (
        DistributedAISimulator(scenario(simulation={"lod": lod})).run().metrics for lod in ("medium", "high")
    )
    times = [name for name in one if name.endswith("_ms")]
    assert [one[name] for name in times] == pytest.approx([other[name] for name in times], rel=1e-9)


def test_details_of_requests_belong_to_serving() -> None:
    with pytest.raises(ValueError, match="save_detailed is about requests and belongs to serving"):
        SimulationConfig(
            hardware={"gpu": "H100-SXM"},
            model={"name": "GPT2-Small"},
            training={"batch_size_per_gpu": 1, "num_iterations": 1},
            simulation={"save_detailed": True},
        )


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("scheduler", ["chunked_prefill", "vllm_v0", "static_batching"])
def test_gaps_of_a_real_run_add_up_to_the_time_from_first_to_last_token(
    scheduler: str, stages: int, preemption: str
) -> None:
    """With waiting for the prompts of others and for copies, and with lost caches."""
    memory = {"gpu_memory_utilization": 0.214 if stages == 1 else 0.119}
    limits = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}
    serving = {"scheduler": scheduler, "preemption": preemption, **limits, **memory}
    strategy = {"strategy": "PP", "pp_stages": stages} if stages > 1 else {"tp_degree": 1}
    workload = {
        "arrivals": {"kind": "poisson", "rate": "30 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 20, "high": 200},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 300},
        "num_requests": 80,
    }
    config = scenario(serving=serving, parallelism=strategy, workload=workload)
    metrics = (result := DistributedAISimulator(config).run()).metrics
    log = result.requests
    assert log is not None
    assert (metrics["preemptions"] > 0) == (scheduler != "static_batching")
    decode_s = Latencies(result.rows).decode_s
    assert metrics["mean_itl_ms"] * (metrics["total_output_tokens"] - 80) == pytest.approx(
        1e3 * decode_s.sum(), rel=1e-4
    )
    single_s = gaps_by_request(log)
    assert single_s is not None
    assert [sum(gaps_s) for gaps_s in single_s] == pytest.approx(decode_s.tolist())
    gaps_ms = 1e3 * np.concatenate(single_s)
    assert metrics["std_itl_ms"] == pytest.approx(gaps_ms.std())
    assert metrics["p99_itl_ms"] == pytest.approx(np.percentile(gaps_ms, 99))


def test_accepted_drafts_are_counted_as_tokens() -> None:
    serving = {"speculative": {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_cost": "1 ms"}}
    result = DistributedAISimulator(scenario(serving=serving)).run()
    assert result.requests is not None
    assert 1.5 < result.requests.tokens_per_sequence < 1 + 0.7 + 0.7**2 + 0.7**3
    length_s = np.diff(result.timeline["time_s"], append=result.simulated_s)
    tokens = (np.array(result.timeline["output_tokens_per_s"]) * length_s).sum()
    assert tokens == pytest.approx(result.metrics["total_output_tokens"])


def test_years_between_requests_take_no_memory() -> None:
    """A request a year, as a slip of the keyboard makes them: the figures of a second are those of a busy one."""
    seldom, often = (
        simulate(
            SimulationConfig(
                hardware={"gpu": "H100-SXM"},
                model={"name": "GPT2-Small"},
                serving={},
                workload={
                    "arrivals": {"kind": "constant", "rate": rate},
                    "prompt_tokens": 64,
                    "output_tokens": 16,
                    "num_requests": 20,
                },
            )
        ).metrics
        for rate in ("3e-8 req/s", "0.5 req/s")
    )
    assert seldom["duration"] > 6e8
    for name in ("max_output_tokens_per_s", "max_concurrent_requests"):
        assert seldom[name] == often[name] > 0


@pytest.mark.parametrize("count", [1, 2, 3, 100, 101, 1000])
def test_percentiles_of_few_and_of_many_values_are_those_of_numpy(count: int) -> None:
    seconds = np.random.default_rng(count).exponential(size=count)
    expected = 1e3 * np.percentile(seconds, PERCENTILES)
    found = _statistics("ttft", seconds.copy())
    assert [found[f"p{each}_ttft_ms"] for each in PERCENTILES[1:]] == pytest.approx(list(expected[1:]), rel=1e-14)
    assert found["median_ttft_ms"] == pytest.approx(expected[0], rel=1e-14)
