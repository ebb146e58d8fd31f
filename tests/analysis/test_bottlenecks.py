"""What is found to hold runs up, and whether the gains that are promised come true."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.analysis.bottleneck import Bottleneck
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

GB = 1e9


def training(
    *,
    compute_s: float = 0.1,
    exposed_s: float = 0.0,
    busy: float | None = None,
    memory: float = 0.5,
    ranks: int = 8,
    batch: int = 8,
    recomputed: float = 0.0,
) -> RunResult:
    """A result with these figures; half of the communication is hidden, and states are not sharded."""
    whole_s = compute_s + exposed_s
    metrics = {
        "gpu_utilization": compute_s / whole_s if busy is None else busy,
        "peak_memory_bytes": memory * 80 * GB,
        "memory_capacity_bytes": 80 * GB,
        "mean_iteration_s": whole_s,
        "compute_s": compute_s,
        "communication_s": 2 * exposed_s,
        "exposed_communication_s": exposed_s,
        "exposed_communication_ratio": exposed_s / whole_s,
        "attained_peak_share": 0.4,
        "batch_size_per_gpu": batch,
        "replicated_states_bytes": 32 * GB * (1 - 1 / ranks),
    }
    parts = {"parameters": 8 * GB, "gradients": 8 * GB, "optimizer": 16 * GB, "activations": 6 * GB, "logits": 2 * GB}
    parts |= {"recomputed": recomputed} if recomputed else {}
    return RunResult("t", "training", "medium", "fifo", metrics, {}, parts)


def serving(
    arrivals_s: list[float], waits_s: list[float], *, busy: float = 0.95, prefill_s: float = 0.1, preempted: int = 0
) -> RunResult:
    """A result of requests that waited so long; the first ones were preempted twice."""
    count = len(arrivals_s)
    queue_ms = 1e3 * sum(waits_s) / count if count else None
    metrics = {
        "gpu_utilization": busy,
        "mean_queue_ms": queue_ms,
        "p99_queue_ms": 1e3 * max(waits_s, default=0.0),
        "mean_ttft_ms": None if queue_ms is None else queue_ms + 1e3 * prefill_s,
        "total_output_tokens": 100 * count,
        "steps": 10 * count,
        "request_throughput": 5.0,
        "offered_requests_per_s": 10.0,
        "preemptions": 2 * preempted,
        "failed": 0,
    }
    rows = {
        "arrival_s": arrivals_s,
        "admitted_s": [arrival + wait for arrival, wait in zip(arrivals_s, waits_s, strict=True)],
        "preemptions": [2] * preempted + [0] * (count - preempted),
        "state": ["completed"] * count,
    }
    return RunResult("s", "serving", "medium", "fifo", metrics, rows, {"kv_cache": 40 * GB})


def kinds(result: RunResult) -> list[str]:
    return [found.kind for found in find_bottlenecks(result)]


def the(kind: str, result: RunResult) -> Bottleneck:
    (found,) = (found for found in find_bottlenecks(result) if found.kind == kind)
    return found


def texts(found: Bottleneck) -> str:
    return "\n".join([found.evidence, *found.recommendations])


def test_the_axis_with_most_of_the_exposed_communication_is_named_if_there_are_several() -> None:
    result = training(exposed_s=0.4)
    assert "axis" not in the("network", result).evidence
    metrics = {**result.metrics, "exposed_tensor_s": 0.1, "exposed_data_s": 0.3, "exposed_pipeline_s": 0.0}
    assert the("network", replace(result, metrics=metrics)).evidence.endswith("; 75 % of it along the data axis")


# --- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (training(busy=0.8), []),
        (training(busy=0.81), ["compute"]),
        (training(busy=0.5, memory=0.7), []),
        (training(busy=0.5, memory=0.71), ["memory"]),
        (training(compute_s=0.7, exposed_s=0.29), []),
        (training(compute_s=0.69, exposed_s=0.31), ["network"]),
        (training(busy=0.85, memory=0.95), ["memory", "compute"]),
        (training(compute_s=0.4, exposed_s=0.6, memory=0.75), ["memory", "network"]),
    ],
)
def test_each_threshold_is_exclusive_and_the_worst_comes_first(result: RunResult, expected: list[str]) -> None:
    assert kinds(result) == expected


@given(
    compute_s=st.floats(1e-6, 1e3),
    exposed_s=st.floats(0.0, 1e3),
    busy=st.floats(0.0, 1.0),
    memory=st.floats(0.0, 1.0),
    ranks=st.integers(1, 4096),
)
def test_any_figures_give_shares_and_text(**figures: Any) -> None:
    found = find_bottlenecks(training(**figures))
    assert [item.severity for item in found] == sorted((item.severity for item in found), reverse=True)
    for item in found:
        assert 0.0 <= item.severity <= 1.0
        assert item.evidence
        assert item.recommendations
        assert json.loads(json.dumps(item.as_dict()))["kind"] == item.kind


def test_communication_is_said_with_its_share_and_what_hiding_it_would_gain() -> None:
    found = the("network", training(compute_s=0.096, exposed_s=0.0667))
    assert found.severity == pytest.approx(0.0667 / 0.1627)
    assert "communication is 41 % of an iteration; if fully overlapped, an iteration would be 96 ms: 1.7x" in texts(
        found
    )


@pytest.mark.parametrize(("exposed_s", "bound"), [(0.08, False), (0.12, True)])
def test_more_than_half_is_bound_by_communication(exposed_s: float, bound: bool) -> None:
    assert ("bound by communication" in texts(the("network", training(exposed_s=exposed_s)))) is bound


@pytest.mark.parametrize(("memory", "risk"), [(0.9, False), (0.91, True)])
def test_little_memory_is_a_warning_and_less_a_risk(memory: float, risk: bool) -> None:
    assert ("risk of running out" in texts(the("memory", training(memory=memory)))) is risk


def test_memory_remedies_say_what_they_free() -> None:
    found = the("memory", training(memory=0.8))
    assert found.evidence == "59.6 GiB of 74.5 GiB are in use at the peak (80 %)"
    text = texts(found)
    assert "activations and logits take 7.45 GiB" in text
    assert "to 75 %" in text, "half of 8 GB less"
    assert "free 26.1 GiB and lower the peak to 45 %" in text, "7/8 of 32 GB"


def test_one_gpu_has_nobody_to_shard_with() -> None:
    assert "shard" not in texts(the("memory", training(memory=0.8, ranks=1)))


def test_what_a_run_does_already_is_no_remedy() -> None:
    smallest = texts(the("memory", training(memory=0.8, batch=1)))
    assert "half the batch" not in smallest
    assert "computing activations again" in smallest
    again = texts(the("memory", training(memory=0.8, recomputed=GB)))
    assert "half the batch" in again
    assert "computing activations again" not in again
    assert the("memory", training(memory=0.8, ranks=1, batch=1, recomputed=GB)).recommendations == (
        "more tensor, context or pipeline parallelism divides what a GPU holds",
    )


def test_faster_gpus_gain_less_than_their_speed_when_communication_stays() -> None:
    found = the("compute", training(compute_s=0.1, exposed_s=0.02))
    assert "GPUs twice as fast would give at best 70 ms per iteration (1.7x)" in texts(found)
    assert "reach 48 % of their dense peak" in texts(found), "an MFU of 40 % in 83 % of the time"


# --- promises, kept by the simulator ------------------------------------------------------------------------------


def simulated(**settings: Any) -> RunResult:
    """GPT-2 medium on 32 A100 with a slow network, so that communication is far from hidden."""
    bandwidth = settings.pop("network_bandwidth", "15 GB/s")
    hardware = {"profile": "dgx-a100", "num_nodes": 4, "network_bandwidth": bandwidth}
    training = {"batch_size_per_gpu": 4, "num_iterations": 2, **settings}
    return simulate(SimulationConfig(hardware=hardware, model={"name": "GPT2-Medium"}, training=training))


def test_accumulating_gradients_gains_at_least_what_was_promised() -> None:
    base = simulated()
    promised = float(re.findall(r"([\d.]+)x the throughput", texts(the("network", base)))[0])
    gained = simulated(gradient_accumulation_steps=4).metrics["samples_per_s"] / base.metrics["samples_per_s"]
    assert 0.96 * promised <= gained <= 1.2 * promised, (
        "promises are rounded, and count the optimizer's step four times"
    )


def test_faster_links_gain_no_more_than_was_promised() -> None:
    slow, fast = (simulated(network_bandwidth=f"{speed} GB/s") for speed in (15, 30))
    promised = float(re.findall(r"links twice as fast .*: ([\d.]+)x", texts(the("network", slow)))[0])
    gained = slow.metrics["mean_iteration_s"] / fast.metrics["mean_iteration_s"]
    assert 1.0 < gained <= promised * 1.05


def test_half_the_batch_frees_what_was_promised() -> None:
    base = simulated(batch_size_per_gpu=40)
    promised = int(re.findall(r"accumulation would lower the peak to (\d+) %", texts(the("memory", base)))[0])
    metrics = simulated(batch_size_per_gpu=20, gradient_accumulation_steps=2).metrics
    assert 100 * metrics["peak_memory_bytes"] / metrics["memory_capacity_bytes"] == pytest.approx(promised, abs=1.0)


@pytest.mark.parametrize("strategy", ["DDP", "ZERO1", "ZERO2", "FSDP"])
def test_sharded_states_free_what_was_promised(strategy: str) -> None:
    def run(strategy: str) -> RunResult:
        return simulate(
            SimulationConfig(
                hardware={"profile": "dgx-a100", "num_nodes": 2},
                model={"name": "GPT2-Large"},
                parallelism={"strategy": f"TP_{strategy}", "tp_degree": 2},
                training={"batch_size_per_gpu": 1, "num_iterations": 1},
            )
        )

    base, sharded = run(strategy), run("FSDP")
    states = ("parameters", "gradients", "optimizer")
    freed = sum(base.memory_bytes[name] - sharded.memory_bytes[name] for name in states)
    assert base.metrics["replicated_states_bytes"] == pytest.approx(freed, abs=16)
    assert (freed > 0) == (strategy != "FSDP")


# --- serving ------------------------------------------------------------------------------------------------------

EVENLY = [0.1 * index for index in range(1000)]


def growing(rate: float) -> list[float]:
    """Waits of requests that come ten times a second and are scheduled `rate` times a second."""
    return [index / rate - arrival for index, arrival in enumerate(EVENLY)]


def test_busy_gpus_alone_hold_nobody_up() -> None:
    assert kinds(serving(EVENLY, [0.01] * 1000, busy=0.99)) == []


@pytest.mark.parametrize(("wait_s", "found"), [(0.099, []), (0.101, ["compute", "queueing"])])
def test_waiting_counts_from_half_of_ttft(wait_s: float, found: list[str]) -> None:
    assert kinds(serving(EVENLY, [wait_s] * 1000)) == found


def test_waiting_is_said_with_its_share() -> None:
    found = the("queueing", serving(EVENLY, [0.3] * 1000))
    assert found.severity == pytest.approx(0.75)
    assert "300 ms of a mean TTFT of 400 ms" in found.evidence
    assert "without waiting the mean TTFT would be 100 ms" in texts(found)


def test_a_backlog_is_said_with_both_rates_and_the_capacity_that_is_missing() -> None:
    found = the("queueing", serving(EVENLY, growing(8.0)))
    assert found.severity == pytest.approx(0.2, abs=0.01)
    assert "arrive at 10 req/s but are scheduled at 8 req/s" in found.evidence
    assert "1.3x the capacity is needed: 2 replicas" in texts(found)


def test_a_queue_that_drains_is_no_backlog() -> None:
    waits = [5.0 if index < 400 else 0.0 for index in range(1000)]
    assert "req/s" not in the("queueing", serving(EVENLY, waits)).evidence


def test_few_arrivals_do_not_tell_a_rate() -> None:
    assert "req/s" not in the("queueing", serving(EVENLY[:150], growing(5.0)[:150])).evidence


@pytest.mark.parametrize("arrivals", [[0.0] * 300, [], [1.0]])
def test_requests_without_a_rate(arrivals: list[float]) -> None:
    assert kinds(serving(arrivals, [0.05] * len(arrivals))) == []


def test_preempted_requests_are_counted_once_each() -> None:
    found = the("memory", serving(EVENLY, [0.0] * 1000, preempted=250))
    assert found.severity == 0.25
    assert "250 of 1,000 requests lost their KV cache" in found.evidence
    assert "500 preemptions" in found.evidence


def served(rate: float, **settings: Any) -> RunResult:
    """Llama 3 8B on one H100."""
    workload = {
        "arrivals": {"kind": "poisson", "rate": f"{rate} req/s"},
        "prompt_tokens": 512,
        "output_tokens": 128,
        "num_requests": 600,
    }
    return simulate(
        SimulationConfig(
            hardware={"gpu": "H100-SXM"}, model={"name": "Llama3-8B"}, serving=settings, workload=workload
        )
    )


@pytest.mark.parametrize(("rate", "expected"), [(5, []), (200, ["compute", "queueing"])])
def test_a_server_that_keeps_up_has_no_bottleneck_and_one_that_does_not_has(rate: float, expected: list[str]) -> None:
    result = served(rate)
    assert kinds(result) == expected
    if expected:
        arriving = float(re.findall(r"arrive at ([\d.]+) req/s", the("queueing", result).evidence)[0])
        assert arriving == pytest.approx(rate, rel=0.2)


def test_a_small_cache_is_a_memory_bottleneck() -> None:
    assert "memory" in kinds(served(60, gpu_memory_utilization=0.25))


POISSON = {"kind": "poisson", "rate": "5 req/s"}


@pytest.mark.parametrize(
    "requests",
    [
        {"arrivals": {"kind": "closed_loop", "concurrency": 4}},
        {"arrivals": POISSON, "sessions": {"turns": 3, "think_time": "1 s"}},
        {"arrivals": POISSON},
    ],
)
def test_requests_that_were_not_sent_before_the_end_do_not_count(requests: dict[str, Any]) -> None:
    """A run that ends at a time leaves most requests of a closed loop unsent."""
    result = simulate(
        SimulationConfig.model_validate(
            {
                "hardware": {"gpu": "H100-SXM"},
                "model": {"name": "Llama3-8B"},
                "serving": {"gpu_memory_utilization": 0.3},
                "workload": {"prompt_tokens": 500, "output_tokens": 200, "num_requests": 400, **requests},
                "simulation": {"duration": "4 s"},
            }
        )
    )
    assert set(result.rows["state"]) >= {"completed", "in flight"}
    assert [found.kind for found in find_bottlenecks(result)] in ([], ["memory"])


def test_a_computation_that_vanishes_beside_communication_is_no_error() -> None:
    """Over a link of 1e-20 B/s, the computation of an iteration is less than a rounding of the clock."""
    found = the("network", training(compute_s=0.001, exposed_s=1e27))
    assert "an iteration would be 0 s: more than 1000000x" in texts(found)
