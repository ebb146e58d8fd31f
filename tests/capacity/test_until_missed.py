"""A run ends when its SLO is lost, and never otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.build.job import build
from simsys.build.serving import ServingJob
from simsys.capacity.until_missed import UntilMissed
from simsys.config.experiment import SimulationConfig
from simsys.metrics.serving_log import ServingLog
from simsys.serving.cancelled import Cancelled
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate_job

SLO = {"ttft": 1.0, "tpot": 0.05, "attainment": 0.9}


def log_of(ttft_s: float, tpot_s: float, late: int, count: int = 100) -> ServingLog:
    """One request per second with eleven tokens, of which the last few have these latencies and the others none."""
    arrival_s = np.arange(float(count))
    log = ServingLog(RequestTable(arrival_s.tolist(), [10] * count, [11] * count))
    kept = np.arange(count) < count - late
    for request, (time_s, good) in enumerate(zip(arrival_s, kept, strict=True)):
        log.first_token_s[request] = time_s + (0.0 if good else ttft_s)
        log.finished_s[request] = log.first_token_s[request] + (0.0 if good else 10 * tpot_s)
    return log


def missed(log: ServingLog, now_s: float = 1e3, slo: dict[str, float] = SLO) -> bool:
    rule = UntilMissed(slo)
    rule.watch(log)
    rule.first_s(log.requests)
    later_s = rule.later_s(now_s)
    assert (later_s is None) == rule.missed
    assert later_s is None or later_s > now_s
    return rule.missed


@pytest.mark.parametrize(("ttft_s", "tpot_s"), [(1.1, 0.0), (0.0, 0.06), (1.1, 0.06)])
def test_as_many_as_the_attainment_allows_may_be_late(ttft_s: float, tpot_s: float) -> None:
    assert not missed(log_of(ttft_s, tpot_s, late=10))
    assert missed(log_of(ttft_s, tpot_s, late=11))
    assert not missed(log_of(ttft_s, tpot_s, late=11), slo={**SLO, "ttft": 2.0, "tpot": 0.07})


def test_a_limit_of_a_statistic_is_known_at_the_end_only() -> None:
    assert not missed(log_of(5.0, 5.0, late=50), slo={"p99_ttft": 1.0, "attainment": 0.99})


def test_requests_under_way_miss_when_their_target_has_passed() -> None:
    log = log_of(0.0, 0.0, late=0)
    for request in range(89, 100):
        log.finished_s[request] = -1.0
    assert not missed(log, now_s=89.6)
    assert missed(log, now_s=99.6)
    for request in range(89, 100):
        log.first_token_s[request] = -1.0
    assert not missed(log, now_s=99.9)
    assert missed(log, now_s=100.1)


def test_rejected_and_cancelled_requests_miss() -> None:
    log = log_of(0.0, 0.0, late=0)
    log.rejected.update(dict.fromkeys(range(6), "too long"))
    assert not missed(log)
    log.cancelled.update({request: Cancelled("gave up", 1, 1, 3.0, waiting=False) for request in range(5, 11)})
    assert missed(log)


def scenario(rate: float, arrivals: str, replicas: int, tokens: int, slo: dict[str, Any]) -> SimulationConfig:
    given: dict[str, Any] = {"kind": arrivals}
    given |= {"concurrency": int(8 * rate)} if arrivals == "closed_loop" else {"rate": f"{rate} req/s"}
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-a100", "gpus_per_node": replicas},
            "model": {"name": "Llama2-7B"},
            "parallelism": {"dp_degree": replicas},
            "serving": {"max_num_batched_tokens": tokens},
            "slo": {name: value if name == "attainment" else f"{value} s" for name, value in slo.items()},
            "workload": {
                "arrivals": given,
                "prompt_tokens": {"kind": "lognormal", "mean": 600},
                "output_tokens": {"kind": "lognormal", "mean": 120},
                "num_requests": 150,
            },
        }
    )


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(1.0, 40.0),
    arrivals=st.sampled_from(["poisson", "constant", "closed_loop"]),
    replicas=st.integers(1, 3),
    tokens=st.sampled_from([512, 2048]),
    targets=st.fixed_dictionaries(
        {}, optional={"ttft": st.floats(0.05, 2.0), "tpot": st.floats(0.01, 0.06), "e2el": st.floats(1.0, 10.0)}
    ),
    attainment=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_it_ends_only_runs_that_miss_their_slo_and_changes_no_other(
    rate: float, arrivals: str, replicas: int, tokens: int, targets: dict[str, float], attainment: float
) -> None:
    slo = {**targets, "attainment": attainment} if targets else {"p99_ttft": 0.5}
    job = build(scenario(rate, arrivals, replicas, tokens, slo)).jobs[0]
    assert isinstance(job, ServingJob)
    rule = UntilMissed(job.slo)
    watched = simulate_job(replace(job, stop=rule))
    whole = simulate_job(job)
    if rule.missed:
        assert whole.metrics["slo_attainment"] < attainment
        assert watched.simulated_s <= whole.simulated_s
    else:
        assert watched.metrics == whole.metrics


def test_an_overloaded_run_ends_soon() -> None:
    job = build(scenario(40.0, "poisson", 1, 2048, {"ttft": 1.0})).jobs[0]
    assert isinstance(job, ServingJob)
    rule = UntilMissed(job.slo)
    watched, whole = simulate_job(replace(job, stop=rule)), simulate_job(job)
    assert rule.missed
    assert watched.simulated_s < whole.simulated_s / 2
