"""A replica that serves one request at a time is a queue of the textbooks, and several with one queue are another."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from frameworks.central_queue import CentralQueue
from frameworks.round_robin import RoundRobin
from simsys.config.experiment import SimulationConfig
from simsys.model.batch import Batch
from simsys.rng import stream
from simsys.serving.host_costs import HostCosts
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate
from simsys.testing import toy_requests
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import Served, StepSeconds, serve

ONE_AT_A_TIME = Limits(num_blocks=100_000, max_num_seqs=1)
COUNT = 150_000
MEAN_TOKENS = 500


def waiting_times(served: Served, requests: RequestTable) -> np.ndarray:
    admitted = served.times("admitted")
    return np.array([admitted[request] - time_s for request, time_s in enumerate(requests.arrival_s)])


def exponential(mean: float, count: int, rng: Generator) -> np.ndarray:
    """Quantiles of the exponential distribution in random order: of all samples, one with few surprises."""
    return rng.permutation(-mean * np.log(1.0 - (np.arange(count) + 0.5) / count))


def tokens_of(count: int, seed: int) -> list[int]:
    """Exponential numbers of tokens, which each take the same time where the host takes nearly all of it."""
    return np.ceil(exponential(MEAN_TOKENS, count, stream(seed, "lengths"))).astype(int).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_constant_service_is_an_m_d_1_queue(load: float) -> None:
    """Lindley's recursion exactly, and Pollaczek-Khinchine: mean wait = load · service / (2 · (1 - load))."""
    service_s = StepSeconds()(Batch(tokens=1, logits=1, attention_pairs=1))
    gaps_s = exponential(service_s / load, COUNT, stream(6, "arrivals"))
    requests = RequestTable(gaps_s.cumsum().tolist(), [1] * COUNT, [1] * COUNT)
    waits_s = waiting_times(serve(requests, ONE_AT_A_TIME, details=False), requests)
    lindley_s = np.zeros(COUNT)
    for n in range(1, COUNT):
        lindley_s[n] = max(0.0, lindley_s[n - 1] + service_s - gaps_s[n])
    assert waits_s == pytest.approx(lindley_s, rel=1e-9, abs=1e-9 * service_s * COUNT)
    assert waits_s.mean() == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (2, 0.6), (4, 0.7)])
def test_exponential_service_is_an_m_m_c_queue(servers: int, load: float) -> None:
    """Mean wait = C / (c·mu - lambda), with Erlang's C; for one server, load · service / (1 - load)."""
    host = HostCosts(per_step_s=1.0)
    tokens = tokens_of(COUNT, seed=6)
    service_s = float(np.mean(tokens))
    gaps_s = exponential(service_s / (servers * load), COUNT, stream(6, "arrivals"))
    requests = RequestTable(gaps_s.cumsum().tolist(), [1] * COUNT, tokens)
    served = serve(requests, ONE_AT_A_TIME, host=host, router=CentralQueue, replicas=servers, details=False)
    offered = servers * load
    queued = offered**servers / factorial(servers) / (1 - load)
    erlang_c = queued / (sum(offered**k / factorial(k) for k in range(servers)) + queued)
    expected_s = erlang_c * service_s / (servers * (1 - load))
    assert waiting_times(served, requests).mean() == pytest.approx(expected_s, rel=0.02)


def test_a_queue_for_each_makes_requests_wait_longer_than_one_for_all() -> None:
    tokens = tokens_of(2_000, seed=6)
    gaps_s = exponential(float(np.mean(tokens)) / 2.4, 2_000, stream(6, "arrivals"))
    requests = RequestTable(gaps_s.cumsum().tolist(), [1] * 2_000, tokens)
    each, one = (
        serve(requests, ONE_AT_A_TIME, host=HostCosts(per_step_s=1.0), router=router, replicas=3, details=False)
        for router in (RoundRobin, CentralQueue)
    )
    assert waiting_times(each, requests).mean() > 1.5 * waiting_times(one, requests).mean()


@pytest.mark.parametrize("replicas", [1, 3])
def test_littles_law(replicas: int) -> None:
    """The time average of the number in the system is arrival rate times mean sojourn, over a run that ends empty."""
    requests = toy_requests(200, seed=6)
    served = serve(requests, Limits(num_blocks=30, max_context_tokens=64), replicas=replicas)
    finished = served.times("finished")
    changes = sorted([(requests.arrival_s[r], 1) for r in finished] + [(time_s, -1) for time_s in finished.values()])
    end_s = changes[-1][0]
    area, number = 0.0, 0
    for (time_s, change), (next_s, _) in zip(changes, [*changes[1:], (end_s, 0)], strict=True):
        number += change
        area += number * (next_s - time_s)
    assert number == 0
    sojourns_s = [time_s - requests.arrival_s[r] for r, time_s in finished.items()]
    rate_per_s, mean_s = len(finished) / end_s, sum(sojourns_s) / len(sojourns_s)
    assert area / end_s == pytest.approx(rate_per_s * mean_s, rel=1e-12)


@pytest.mark.parametrize(
    "serving",
    [
        {"gpu_memory_utilization": 0.2},  # preempts
        {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}},
        {"router": "central_queue", "api_overhead": "20 ms"},
    ],
)
def test_littles_law_of_the_figures_of_a_scenario(serving: dict[str, Any]) -> None:
    """What a user reads: requests that wait and run on average, times the run, are all their times since the API."""
    config = SimulationConfig(
        hardware={"profile": "dgx-a100", "gpus_per_node": 2},
        model={"name": "Llama-2-7B"},
        serving={"api_overhead": "0 s", **serving},
        workload={
            "arrivals": {"kind": "gamma", "rate": "40 req/s", "burstiness": 0.3},
            "prompt_tokens": {"kind": "lognormal", "mean": 500, "max": 2000},
            "output_tokens": {"kind": "lognormal", "mean": 200, "max": 2000},
            "num_requests": 150,
        },
    )
    result = simulate(config)
    rows, figures = result.rows, result.metrics
    assert figures["completed"] == 150
    assert bool(figures["preemptions"]) == ("gpu_memory_utilization" in serving)
    api_s = 0.02 if "api_overhead" in serving else 0.0
    times_s = sum(rows["finished_s"]) - sum(rows["arrival_s"]) - 150 * api_s
    number = figures["mean_waiting"] + figures["mean_running"]
    assert number * figures["duration"] == pytest.approx(times_s, rel=1e-12)
