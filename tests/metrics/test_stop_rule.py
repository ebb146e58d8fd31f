"""A run that a rule ends equals a run that ends at the same time, however often the rule was asked before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simsys.build.job import build
from simsys.build.serving import ServingJob
from simsys.metrics.serving_log import ServingLog
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate, simulate_job
from tests.helpers.capacity_toys import chat

CASES: dict[str, dict[str, Any]] = {
    "chunked prefill": {},
    "prefill first": {"serving.scheduler": "vllm_v0"},
    "preempting": {"serving.num_gpu_blocks_override": 400},
    "two replicas": {"hardware.gpus_per_node": 2},
    "split": {
        "hardware.gpus_per_node": 2,
        "serving.disaggregated": {"prefill_replicas": 1, "decode_replicas": 1},
    },
    "high": {"simulation.lod": "high", "workload.num_requests": 30},
}


class Every:
    """Looks at a run in equal steps and ends it at a time."""

    def __init__(self, step_s: float, end_s: float) -> None:
        self._step_s, self._end_s = step_s, end_s
        self.seen: list[tuple[float, int]] = []

    def watch(self, log: ServingLog) -> None:
        self._log = log
        self.seen.clear()

    def first_s(self, requests: RequestTable) -> float:
        return self._step_s

    def later_s(self, now_s: float) -> float | None:
        self.seen.append((now_s, int(self._log.completed.sum())))
        return None if now_s >= self._end_s else min(now_s + self._step_s, self._end_s)


@pytest.mark.parametrize("change", CASES.values(), ids=CASES)
def test_a_run_ends_where_the_rule_says(change: dict[str, Any]) -> None:
    config = chat(4.0).with_(change)
    end_s = 6.0
    timed = simulate(config.with_({"simulation.duration": f"{end_s} s"}))
    job = build(config).jobs[0]
    assert isinstance(job, ServingJob)
    rule = Every(0.37, end_s)
    found = simulate_job(replace(job, stop=rule))
    assert len(rule.seen) == 17
    assert rule.seen[-1] == (end_s, found.metrics["completed"])
    assert found.requests is not None
    assert timed.requests is not None
    ends_s = list(timed.requests.finished_s)  # of the requests that arrive in time
    assert list(found.requests.finished_s)[: len(ends_s)] == ends_s
    assert found.requests.stopped_s == end_s
    for name in ("completed", "in_flight", "in_flight_output_tokens", "mean_ttft_ms", "p99_itl_ms", "steps"):
        assert found.metrics[name] == pytest.approx(timed.metrics[name], rel=1e-9), name


def test_a_run_may_end_before_the_rule() -> None:
    config = chat(4.0)
    job = build(config).jobs[0]
    assert isinstance(job, ServingJob)
    found = simulate_job(replace(job, stop=Every(1000.0, 2000.0)))
    assert found.metrics == simulate(config).metrics
