"""Offered and served rates: of queues whose behaviour is known, and of runs that keep up, reject, drown or wait."""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any

import numpy as np
import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.metrics.latencies import Latencies
from simsys.metrics.offered_load import load_metrics, load_warnings
from simsys.metrics.result import RunResult
from simsys.metrics.serving_log import ServingLog
from simsys.serving.cancelled import Cancelled
from simsys.serving.requests import RequestTable
from tests.helpers.each_case import each_case


def queue(rate: float, count: int, *, service_s: float = 1.0, latency_s: float = 0.0) -> ServingLog:
    """One server that takes a request each `service_s`; a request is in it for `latency_s` more."""
    arrival_s = (np.arange(count) / rate).tolist()
    log = ServingLog(RequestTable(arrival_s, [10] * count, [2] * count))
    free_s = 0.0
    for request, time_s in enumerate(arrival_s):
        begins_s = max(time_s, free_s)
        free_s = begins_s + service_s
        log.admitted_s[request] = begins_s
        log.first_token_s[request] = log.finished_s[request] = free_s + latency_s
    return log


def load(log: ServingLog, throughput: float = -1.0) -> dict[str, Any]:
    return load_metrics(log, Latencies(log.rows()), throughput)


@pytest.mark.parametrize("count", [50, 500])
@pytest.mark.parametrize("latency_s", [0.0, 5.0, 20.0])
def test_a_server_that_keeps_up_serves_what_is_offered_however_long_requests_take(
    count: int, latency_s: float
) -> None:
    """The drain after the last arrival does not count."""
    found = load(queue(0.5, count, latency_s=latency_s))
    assert found["offered_requests_per_s"] == pytest.approx(0.5)
    assert found["served_requests_per_s"] == pytest.approx(0.5)
    assert (found["served_share"], found["overloaded"], found["steady"]) == (1.0, 0, 1)


@pytest.mark.parametrize("rate", [1.5, 2.0, 4.0])
def test_an_overloaded_server_serves_its_capacity(rate: float) -> None:
    found = load(queue(rate, 2000))
    assert found["offered_requests_per_s"] == pytest.approx(rate)
    assert found["served_requests_per_s"] == pytest.approx(1.0, rel=0.01)
    assert found["served_share"] == pytest.approx(1 / rate, rel=0.01)
    assert (found["overloaded"], found["saturation"]) == (1, "overloaded")


def test_rejected_requests_are_offered_and_not_served() -> None:
    log = queue(0.5, 400)
    for request in range(0, 400, 4):
        log.rejected[request] = "too long"
        log.admitted_s[request] = log.first_token_s[request] = log.finished_s[request] = -1.0
    log.preemptions[1] = 3
    found = load(log)
    assert found["rejected_share"] == pytest.approx(0.25)
    assert found["preempted_share"] == pytest.approx(1 / 400)
    assert found["served_requests_per_s"] == pytest.approx(0.375)


def test_requests_that_clients_give_up_are_offered_and_not_served_and_no_queue() -> None:
    """Twice the capacity: every second request waits for 3 s in vain."""
    log = queue(2.0, 2000)
    for request in range(2000):
        time_s, kept = request / 2.0, request % 2 == 0
        if kept:
            log.admitted_s[request], log.finished_s[request] = time_s, time_s + 1.0
        else:
            log.admitted_s[request] = log.first_token_s[request] = log.finished_s[request] = -1.0
            log.cancelled[request] = Cancelled("too late", 0, 0, time_s + 3.0, waiting=True)
    found = load(log)
    assert (found["cancelled_share"], found["served_share"]) == (0.5, 0.5)
    assert (found["overloaded"], found["steady"]) == (0, 1)
    assert found["served_requests_per_s"] == pytest.approx(1.0, rel=0.01)
    (text,) = load_warnings({**found, "completed": 1000, "cancelled": 1000})
    assert text.startswith("clients gave up 50.0% of the requests: latencies and throughput are those of completed")


def test_requests_that_arrive_with_the_last_one_are_the_open_end_of_the_window() -> None:
    """Time stamps of traces may be rounded: four groups of ten, 3 s apart, are 30 requests in 9 s."""
    log = ServingLog(RequestTable([3.0 * (each // 10) for each in range(40)], [10] * 40, [2] * 40))
    assert load(log)["offered_requests_per_s"] == pytest.approx(30 / 9)


@pytest.mark.parametrize("concurrency", [0, 4])
def test_without_an_offered_rate_the_served_one_is_that_of_the_whole_run(concurrency: int) -> None:
    """All at once, or each client waits for its answer."""
    log = ServingLog(RequestTable([0.0] * 20, [10] * 20, [2] * 20, concurrency=concurrency))
    for request in range(20):
        log.arrival_s[request] = float(request // 4 if concurrency else 0)
        log.admitted_s[request] = log.arrival_s[request]
        log.first_token_s[request] = log.finished_s[request] = log.arrival_s[request] + 1.0
    found = load(log, 7.0)
    assert found["offered_requests_per_s"] is None
    assert found["served_requests_per_s"] == 7.0
    assert load_warnings({**found, "completed": 20}) == []


def test_a_burst_tells_no_rate_that_is_sustained() -> None:
    log = queue(100.0, 50)
    found = load(log, 1.0)
    assert (found["steady"], found["served_requests_per_s"]) == (0, 1.0)
    [warning] = load_warnings({**found, "completed": 50})
    assert warning.startswith(
        "requests arrive for 0.49 s, and more and more are under way until then: 1 req/s is the "
    )


@pytest.mark.parametrize("count", [20, 60, 150])
@pytest.mark.parametrize("rate", [2.0, 3.0])
def test_too_few_requests_to_call_it_an_overload_are_not_called_served(rate: float, count: int) -> None:
    found = load(queue(rate, count), 0.9)
    assert (found["overloaded"], found["steady"], found["served_requests_per_s"]) == (0, 0, 0.9)


def test_a_burst_at_the_end_of_bursts_is_no_growth() -> None:
    arrival_s = [10.0 * burst + 0.01 * each for burst in range(10) for each in range(50)]
    log = ServingLog(RequestTable(arrival_s, [10] * 500, [2] * 500))
    for request, time_s in enumerate(arrival_s):
        log.admitted_s[request] = time_s
        log.first_token_s[request] = log.finished_s[request] = time_s + 5.0
    assert load(log)["steady"] == 1


def test_requests_may_end_when_the_next_ones_arrive() -> None:
    """At late times a float has no room for short requests, so those that arrive together have ended already."""
    arrival_s = [1e15 * (each // 4) for each in range(40)]
    log = ServingLog(RequestTable([0.0] * 40, [10] * 40, [2] * 40))
    log.arrival_s[:] = arrival_s
    for request, time_s in enumerate(arrival_s):
        log.admitted_s[request] = log.first_token_s[request] = log.finished_s[request] = time_s
    assert load(log)["steady"] == 1


def test_requests_that_fill_the_batch_without_a_queue_are_no_steady_state() -> None:
    """Each is scheduled at once, and takes the longer, the more there are."""
    log = ServingLog(RequestTable((np.arange(400) / 10).tolist(), [10] * 400, [2] * 400))
    for request in range(400):
        log.admitted_s[request] = log.arrival_s[request]
        log.first_token_s[request] = log.finished_s[request] = 2 * log.arrival_s[request] + 1.0
    assert load(log, 5.0)["steady"] == 0


@each_case("seed", range(20))
@pytest.mark.parametrize("count", [30, 100, 1000])
def test_chance_is_no_growth(count: int, seed: int) -> None:
    """Poisson arrivals whose requests take 5 s on average, of 10 s or more that they come in."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.random(count) * count / 3)
    log = ServingLog(RequestTable(arrival_s.tolist(), [10] * count, [2] * count))
    for request in range(count):
        log.admitted_s[request] = arrival_s[request]
        log.first_token_s[request] = log.finished_s[request] = arrival_s[request] + rng.gamma(4.0) * (
            1.25 if count > 30 else 0.3
        )
    assert load(log)["steady"] == 1


def test_a_run_of_nothing_has_no_rate_and_no_warning() -> None:
    log = ServingLog(RequestTable([], [], []))
    found = load(log, 0.0)
    assert (found["offered_requests_per_s"], found["served_requests_per_s"], found["saturation"]) == (None, 0.0, None)
    assert load_warnings({**found, "completed": 0}) == []


def test_where_prompts_and_tokens_have_replicas_of_their_own_both_can_drown() -> None:
    """All prompts are taken on at once; tokens are not, and of requests with one token nothing else is needed."""
    log = queue(2.0, 2000)
    joined = {request: (1, log.admitted_s[request]) for request in range(2000)}
    log.admitted_s = array("d", log.arrival_s)
    assert load(log)["overloaded"] == 0
    log.joined = joined
    found = load(log)
    assert found["overloaded"] == 1
    assert found["served_requests_per_s"] == pytest.approx(1.0, rel=0.01)


# --- whole runs ------------------------------------------------------------------------------------------------------


@cache
def run(rate: float, kind: str = "constant", requests: int = 500, **serving: int) -> RunResult:
    arrivals = {"kind": kind, "rate": f"{rate} req/s"} if rate else {"kind": "closed_loop", "concurrency": 8}
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "Llama3-8B"},
        serving=serving,
        workload={"arrivals": arrivals, "prompt_tokens": 512, "output_tokens": 256, "num_requests": requests},
    )
    return DistributedAISimulator(config).run()


def test_twenty_requests_a_second_that_are_kept_up_with_read_twenty() -> None:
    metrics = run(20.0).metrics
    assert metrics["request_throughput"] < 19.0, "vLLM's own figure counts the drain"
    assert metrics["served_requests_per_s"] == pytest.approx(20.0)
    assert metrics["saturation"] == "stable"


def test_a_longer_run_reads_the_same() -> None:
    few, many = (run(20.0, requests=count).metrics["served_requests_per_s"] for count in (300, 1200))
    assert few == pytest.approx(many)


def test_an_overload_reads_the_same_in_a_longer_run() -> None:
    few, many = (run(40.0, requests=count, max_num_seqs=32).metrics for count in (1000, 3000))
    assert few["overloaded"] == many["overloaded"] == 1
    # Up to 32 requests end together, of the 330 that end while 1,000 arrive.
    assert few["served_requests_per_s"] == pytest.approx(many["served_requests_per_s"], rel=0.1)
    assert many["p99_ttft_ms"] > 2 * few["p99_ttft_ms"], "which is what the headline warns of"


def test_a_closed_loop_has_vllms_rate() -> None:
    metrics = run(0.0, requests=100).metrics
    assert metrics["offered_requests_per_s"] is None
    assert metrics["served_requests_per_s"] == metrics["request_throughput"]


def test_clients_that_wait_for_answers_never_overload_their_server() -> None:
    """Requests of the same length that begin together end together, so a queue comes with each of their waves."""
    waves = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "Llama3-8B"},
        serving={},
        workload={
            "arrivals": {"kind": "closed_loop", "concurrency": 64},
            "prompt_tokens": 1024,
            "output_tokens": 1024,
            "num_requests": 256,
        },
    )
    result = DistributedAISimulator(waves).run()
    assert (result.metrics["overloaded"], result.metrics["saturation"]) == (0, "stable")
    assert not any("queue grows" in found.evidence for found in find_bottlenecks(result))


def test_a_burst_is_a_warning_of_the_result() -> None:
    result = run(1000.0, requests=50)
    assert len(result.warnings) == 1
    assert "the rate of the whole run" in result.warnings[0]


def test_a_batch_that_still_fills_is_a_warning() -> None:
    """Ten requests arrive per second and stay for longer and longer, so 1 of 21 adds to the batch."""
    arrival_s = (np.arange(1200) / 10.0).tolist()
    log = ServingLog(RequestTable(arrival_s, [10] * 1200, [2] * 1200))
    for request, time_s in enumerate(arrival_s):
        log.admitted_s[request] = log.first_token_s[request] = time_s
        log.finished_s[request] = 20.0 + 1.05 * time_s
    found = load(log)
    assert (found["steady"], found["overloaded"], found["growing"]) == (1, 0, 1)
    assert found["growth_share"] == pytest.approx(1.0 / 21.0, rel=0.01)
    [warning] = load_warnings({**found, "completed": 1200})
    assert warning.startswith("batch or queue were still growing at the last arrival, by 4.8% of the requests")


@pytest.mark.parametrize("stay_s", [5.0, 20.0])
def test_a_batch_that_is_full_is_none(stay_s: float) -> None:
    arrival_s = (np.arange(1200) / 10.0).tolist()
    log = ServingLog(RequestTable(arrival_s, [10] * 1200, [2] * 1200))
    for request, time_s in enumerate(arrival_s):
        log.admitted_s[request] = log.first_token_s[request] = time_s
        log.finished_s[request] = time_s + stay_s
    found = load(log)
    assert (found["growing"], found["growth_share"]) == (0, pytest.approx(0.0, abs=1e-9))
    assert load_warnings({**found, "completed": 1200}) == []
