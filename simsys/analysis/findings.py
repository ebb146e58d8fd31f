"""What a run loses time to, by resource: the losses and bottlenecks of `losses` and `bottlenecks`, with their place.

The severity of a resource is the share of the whole that its losses take, an iteration or the mean latency of a
request, so that resources can be ranked. Losses are disjoint, so severities add up to 1 at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from simsys.analysis.bottleneck import Bottleneck
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.analysis.losses import BOUND, HIGH, PREEMPTION, Level, Loss, losses
from simsys.analysis.places import Place, place_of
from simsys.build.job import Job
from simsys.build.serving import ServingJob
from simsys.metrics.result import RunResult
from simsys.sums import ordered_sum

Resource = Literal["compute", "memory", "network", "queueing", "bubble", "kv_capacity", "host"]
RESOURCES: Mapping[str, tuple[Resource, ...]] = {
    "training": ("compute", "memory", "network", "bubble", "host"),
    "serving": ("compute", "memory", "network", "queueing", "kv_capacity", "host"),
}
"""By kind of run."""
CAUSES: Mapping[str, Resource] = {
    "kernel inefficiency": "compute",
    "optimizer": "compute",
    "waiting for other ranks": "compute",
    "prompts of other requests": "compute",
    "recomputation": "memory",
    "exposed host communication": "memory",
    "bubble": "bubble",
    "waiting for batches": "host",
    "checkpoints": "host",
    "waiting for kernel launches": "host",
    "request handling": "host",
    "queueing": "queueing",
    PREEMPTION: "kv_capacity",
    "move to another replica": "network",
    "GPUs idle within steps": "host",
}
"""Resource by loss; other losses are exposed communication. See `_resource_of` for the two that depend on the job."""
FULL = 0.95
"""Share of the KV cache in use above which waiting requests wait for it, unless batches are at their limit."""


@dataclass(frozen=True)
class Finding:
    """What a run loses to a resource.

    Args:
        kind: The resource.
        severity: Share of the whole that its losses take, 0 to 1.
        level: ``minor``, ``high``, or ``bound`` if it exceeds all else together.
        losses: Its losses, the largest first.
        place: Which link, rank or dimension has it, as text; empty if it has no place.
        evidence: Figures by name, with units in the names.
        text: What `simsys run` reports about the resource; empty if it passes no threshold there.
        job: The job, on a shared cluster.
    """

    kind: Resource
    severity: float
    level: Level
    losses: tuple[Loss, ...]
    place: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    job: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The finding as data for JSON."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "level": self.level,
            "losses": [loss.as_dict() for loss in self.losses],
            "place": self.place,
            "evidence": dict(self.evidence),
            "text": self.text,
            **({"job": self.job} if self.job else {}),
        }


def findings(result: RunResult, job: Job) -> list[Finding]:
    """What a run of one job loses to each resource, the most severe first.

    Args:
        result: The result.
        job: The job that was run.
    """
    lost, told = losses(result), find_bottlenecks(result)
    by_kind: dict[str, list[Loss]] = {kind: [] for kind in RESOURCES[result.kind]}
    for loss in lost:
        by_kind[_resource_of(loss, result, job)].append(loss)
    found = [
        _finding(kind, by_kind[kind], _texts(told, _rule_of(kind, result)), place_of(kind, by_kind[kind], result, job))
        for kind in RESOURCES[result.kind]
    ]
    return sorted(found, key=lambda each: -each.severity)


def of_jobs(result: RunResult, jobs: Sequence[Job]) -> list[Finding]:
    """What the jobs of a shared cluster lose, the most severe first."""
    named = {job.config.name: job for job in jobs}
    found = [
        replace(each, job=run.name) for run in result.jobs for each in findings(run, named[run.name]) if each.severity
    ]
    return sorted(found, key=lambda each: -each.severity)


def _finding(kind: Resource, lost: Sequence[Loss], text: str, place: Place) -> Finding:
    ordered = tuple(sorted(lost, key=lambda loss: -loss.seconds))
    severity = min(1.0, ordered_sum(loss.share for loss in ordered))
    level: Level = "bound" if severity > BOUND else "high" if severity > HIGH else "minor"
    return Finding(kind, severity, level, ordered, place.text, place.evidence, text)


def _rule_of(kind: Resource, result: RunResult) -> str:
    """The name of the rules of `bottlenecks` about a resource: in serving, those of memory are about preemption."""
    if result.kind == "serving":
        return {"kv_capacity": "memory", "memory": ""}.get(kind, kind)
    return kind


def _texts(told: Sequence[Bottleneck], kind: str) -> str:
    """What the rules of `bottlenecks` say about a resource."""
    return "; ".join(each.evidence for each in told if each.kind == kind)


def _resource_of(loss: Loss, result: RunResult, job: Job) -> Resource:
    if loss.name == "queueing":
        return "kv_capacity" if isinstance(job, ServingJob) and _waits_for_cache(result, job) else "queueing"
    if loss.name == "GPUs idle within steps" and job.layout.tensor * job.layout.pipeline > 1:
        return "network"  # which all-reduces and messages between stages exceed the host's part of
    return CAUSES.get(loss.name, "network")


def _waits_for_cache(result: RunResult, job: ServingJob) -> bool:
    """Whether requests wait for blocks of the KV cache: it is full although batches have room."""
    metrics = result.metrics
    most = job.settings.max_num_seqs * job.layout.data * job.layout.pipeline
    return bool(metrics.get("max_kv_cache_usage", 0.0) >= FULL and metrics.get("mean_running", 0.0) < FULL * most)
