"""Metrics of a part of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simsys.metrics.serving import serving_metrics
from simsys.metrics.window import completed_until_s, window
from simsys.simulation import simulate
from tests.helpers.capacity_toys import chat


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"serving.num_gpu_blocks_override": 400},  # preempts
        {"serving.disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}, "hardware.gpus_per_node": 2},
        {"workload.sessions": {"turns": 3, "think_time": "1 s"}, "serving.prefix_caching": True},
    ],
)
def test_the_whole_run_has_its_own_metrics(change: dict[str, object]) -> None:
    result = simulate(chat(2.0).with_(change))
    log = result.requests
    assert log is not None
    part = serving_metrics(window(log, 0.0, log.ended_s), {"ttft": 1.0})
    whole = serving_metrics(log, {"ttft": 1.0})
    differ = {name for name, value in whole.items() if not _same(value, part[name])}
    assert differ == set()


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


def test_a_part_has_the_requests_and_steps_of_its_time() -> None:
    log = simulate(chat(2.0)).requests
    assert log is not None
    arrived_s = np.sort(log.arrived_s)
    since_s, until_s = float(arrived_s[20]), float(arrived_s[60])
    part = window(log, since_s, until_s)
    assert len(part.requests) == 40
    figures = serving_metrics(part, {})
    inside = (log.arrived_s >= since_s) & (log.arrived_s < until_s) & log.completed
    ttft_s = np.asarray(log.first_token_s)[inside] - log.arrived_s[inside]
    assert figures["mean_ttft_ms"] == pytest.approx(1e3 * ttft_s.mean())
    assert figures["duration"] == pytest.approx(until_s - since_s)
    assert figures["request_throughput"] == pytest.approx(inside.sum() / (until_s - since_s))
    starts_s = log.steps.of(0).started_s
    assert len(part.steps) == np.count_nonzero((starts_s >= since_s) & (starts_s < until_s))


def test_requests_under_way_end_the_time_of_the_completed_ones() -> None:
    result = simulate(chat(4.0).with_({"simulation.duration": "20 s", "workload.num_requests": 1000}))
    log = result.requests
    assert log is not None
    assert log.in_flight
    assert completed_until_s(log, 20.0) == min(log.arrival_s[request] for request in log.in_flight)
    done = simulate(chat(4.0)).requests
    assert done is not None
    assert completed_until_s(done, done.ended_s) == done.ended_s
