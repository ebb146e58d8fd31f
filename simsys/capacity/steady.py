"""A serving run that continues until its batch and its queue no longer grow, and its metrics without the warm-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from simsys.build.job import build
from simsys.build.serving import ServingJob
from simsys.capacity.until_steady import REQUESTS, Missed, UntilSteady, Verdict
from simsys.config.experiment import SimulationConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.metrics.growth import Growth
from simsys.metrics.offered_load import load_warnings
from simsys.metrics.result import RunResult
from simsys.metrics.serving import serving_metrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.window import completed_until_s, window
from simsys.simulation import simulate_job

MOST_REQUESTS = 200_000
"""Largest number of requests of a run."""
FEW, MORE = 16_000, 4
"""Requests that are drawn at first, as most runs need no more; and the factor by which more are drawn."""
HARDWARE = ("gpu_utilization", "peak_memory_bytes", "memory_capacity_bytes")
"""Metrics of the whole run."""
MOVING = {
    "all_at_once": "all requests arrive at once, so that the queue only shrinks",
    "time_varying": "the rate of arrivals changes over time",
}
"""Arrivals without a steady state, with the reason."""


@dataclass(frozen=True)
class SteadyState:
    """A serving run until the steady state.

    Args:
        verdict: How it ended.
        metrics: Metrics of the requests that arrived in the later half of the run and were completed: the first half
            is the warm-up. Rates are per second of that time. Empty if there are no such requests.
        requests: Requests that arrived.
        warm_up_s: Time before them (s).
        simulated_s: Length of the run (s).
        growth: Growth of the number of requests in the system over the later half, as a share of the arrivals.
        queue_growth: The same of the number of waiting requests.
        limit: The limit that ended a run that was neither steady nor overloaded; else empty.
        warnings: Doubts about the run.
    """

    verdict: Verdict
    metrics: Mapping[str, Any]
    requests: int
    warm_up_s: float
    simulated_s: float
    growth: Growth | None
    queue_growth: Growth | None
    limit: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_steady(self) -> bool:
        """Whether batch and queue no longer grew."""
        return self.verdict is Verdict.STEADY

    @property
    def text(self) -> str:
        """The verdict with its reason."""
        after = f"after {self.requests:,} requests ({self.simulated_s:.4g} s)"
        if self.verdict is Verdict.GROWING:
            return f"not yet steady {after}, which was {self.limit}"
        if self.verdict is Verdict.OVERLOADED and self.queue_growth is not None:
            return f"overloaded: the queue grows by {self.queue_growth.share:.1%} of the requests that arrive"
        return f"{self.verdict} {after}"


def steady_state(
    config: SimulationConfig,
    *,
    most_requests: int = MOST_REQUESTS,
    most_seconds: float | None = None,
    misses: Callable[[Mapping[str, Any]], Missed] = lambda _: Missed.NOTHING,
) -> SteadyState:
    """Simulate a serving scenario until it is steady: batch and queue no longer grow (`simsys.metrics.growth`).

    The number of requests and the duration of the scenario do not count: the run continues with the same random
    streams, so a longer run begins with the requests of a shorter one.

    Args:
        config: The scenario.
        most_requests: Largest number of requests.
        most_seconds: Longest time of computation (s); the answer then depends on the speed of the machine.
        misses: How far metrics of the later half of a run miss what is demanded.

    Raises:
        UsageError: If the scenario is no serving scenario, or its arrivals have no steady state.
        ConfigError: If it breaks a rule.
    """
    drawn = min(FEW, most_requests)
    while True:
        found = _run(_endless(config, drawn), most_seconds, misses)
        if found.limit != REQUESTS or drawn >= most_requests or found.requests < drawn:
            return found
        drawn = min(MORE * drawn, most_requests)


def _run(
    config: SimulationConfig, most_seconds: float | None, misses: Callable[[Mapping[str, Any]], Missed]
) -> SteadyState:
    """Simulate a scenario until it is steady, or until its last request."""
    job = build(config).jobs[0]
    assert isinstance(job, ServingJob)

    def missed(log: ServingLog, since_s: float, now_s: float) -> Missed:
        part = _measured(job, log, since_s, now_s)
        return Missed.NOTHING if part is None else misses(part)

    rule = UntilSteady(most_seconds, missed)
    found = simulate_job(replace(job, stop=rule))
    assert found.requests is not None
    log = found.requests
    measured = _measured(job, log, rule.since_s, rule.until_s)
    return SteadyState(
        rule.verdict,
        {} if measured is None else _with_run(job, found, measured, rule),
        int((log.arrived_s >= 0.0).sum()),
        rule.since_s,
        found.simulated_s,
        rule.in_system,
        rule.in_queue,
        rule.limit,
        tuple(text for text in found.warnings if text not in load_warnings(found.metrics)),
    )


def _measured(job: ServingJob, log: ServingLog, since_s: float, now_s: float) -> dict[str, Any] | None:
    """Metrics of the completed requests of a time; None if there are none."""
    until_s = completed_until_s(log, now_s)
    if until_s <= since_s:
        return None
    return serving_metrics(window(log, since_s, until_s), job.slo)


def _with_run(job: ServingJob, found: RunResult, measured: Mapping[str, Any], rule: UntilSteady) -> dict[str, Any]:
    """The metrics of the later half with the verdict, its costs, and metrics of the hardware of the whole run."""
    hardware = {name: found.metrics[name] for name in HARDWARE}
    costs = job.economics(measured, found.metrics["gpu_utilization"])
    return {**measured, **_load(measured, rule), **costs, **hardware}


def _load(measured: Mapping[str, Any], rule: UntilSteady) -> dict[str, Any]:
    """Metrics of the load by the verdict, as a part of a run does not show what was there before."""
    steady, overloaded = rule.verdict is Verdict.STEADY, rule.verdict is Verdict.OVERLOADED
    shares = [each.share for each in (rule.in_system,) if each is not None]
    labels: dict[str, Any] = {"steady": int(steady or overloaded), "overloaded": int(overloaded)}
    labels |= {"growth_share": shares[0] if shares else None, "growing": int(not steady)}
    offered_per_s = measured["offered_requests_per_s"]
    if offered_per_s is None or not labels["steady"]:
        return labels
    share = 1.0 - measured["rejected_share"]
    if overloaded and rule.in_queue is not None:
        share *= max(0.0, 1.0 - rule.in_queue.share)
    labels |= {"served_share": share, "served_requests_per_s": share * offered_per_s}
    if measured.get("slo_attainment") is not None:
        labels["goodput_requests_per_s"] = offered_per_s * measured["slo_attainment"]
    return labels


def _endless(config: SimulationConfig, most_requests: int) -> SimulationConfig:
    """The scenario with as many requests as a run may need."""
    if config.kind != "serving" or config.workload is None:
        raise UsageError("a steady state is that of one serving scenario: serving with a workload")
    if config.workload.cancellation is not None:
        raise UsageError("a steady state with cancellation is not available, as clients give up what a queue grows by")
    if reason := MOVING.get(config.workload.arrivals.kind):
        raise UsageError(f"there is no steady state with arrivals of kind {config.workload.arrivals.kind}: {reason}")
    count = _count(config.workload, most_requests)
    workload = config.workload.model_copy(update={"num_requests": count, "duration": None})
    simulation = config.simulation.model_copy(update={"duration": None})
    return config.model_copy(update={"workload": workload, "simulation": simulation})


def _count(workload: WorkloadConfig, most_requests: int) -> int | None:
    """The number of requests; None for all that a trace has."""
    limited = workload.traced and workload.trace is not None and not workload.trace.repeat
    return None if limited else most_requests
