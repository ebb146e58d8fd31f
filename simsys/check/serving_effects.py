"""Effects of serving remedies on latencies, measured by simulating the first requests with each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from simsys.build.rules.findings import Remedy
from simsys.build.serving import ServingJob
from simsys.check.remedies import applied, memory_problem
from simsys.check.serving_remedies import combining
from simsys.errors import SimsysError
from simsys.simulation import simulate_job
from simsys.units import Dimension, pretty

REQUESTS = 32
"""Number of the first requests of a workload that are simulated."""
MAX_SIMULATIONS = 8
"""Most simulations for one job; further remedies have no measured latency."""
MAX_PAIRS = 6
NUMBERS = ("serving.precision", "serving.kv_precision")
"""Settings that change the output of the model."""


@dataclass(frozen=True)
class ServingEffect:
    """The effect of a remedy with which a job fits.

    Args:
        remedy: The settings.
        gpus: GPUs of the cluster that replaces the present one; 0 if the cluster stays.
        latency_s: Mean end-to-end latency of the first requests; None if it was not measured.
    """

    remedy: Remedy
    gpus: int = 0
    latency_s: float | None = None

    @property
    def changes_answers(self) -> bool:
        """Whether weights or the KV cache have fewer bits."""
        return self.fewer_bits > 0

    @property
    def fewer_bits(self) -> int:
        """Number of settings that reduce bits."""
        return sum(path in NUMBERS for path in self.remedy)

    def figures(self) -> str:
        """Its costs as text.

        Example:
            >>> ServingEffect({"serving.precision": "fp8"}, latency_s=0.532).figures()
            'mean latency 532 ms over the first requests, fewer bits per number'
        """
        parts = []
        if self.latency_s is not None:
            parts.append(f"mean latency {pretty(self.latency_s, Dimension.SECONDS)} over the first requests")
        if self.changes_answers:
            parts.append("fewer bits per number")
        return ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The effect as values for JSON."""
        return {
            "latency_s": self.latency_s,
            "changes_answers": self.changes_answers,
            "gpus": self.gpus or None,
        }


def serving_effects(job: ServingJob, tokens: int, limit: int = MAX_SIMULATIONS) -> list[ServingEffect]:
    """Remedies with which a job fits, the best first.

    They are ordered by additional GPUs, then by settings that reduce bits, then by latency. There are also pairs of
    insufficient remedies, and if no pair suffices, larger combinations. More hardware is combined with other settings
    only if it does not suffice alone.

    Args:
        job: The job that does not fit.
        tokens: The shortest request (prompt and output) that must fit into the KV cache alone.
        limit: Most simulations.
    """
    search = combining(job, tokens)
    found = [
        _effect(job, remedy, changed) for remedy, changed in search.singles() if not memory_problem(changed, tokens)
    ]
    alone = [effect.remedy for effect in found]
    pairs = [
        _effect(job, *pair) for pair in search.pairs() if not any(each.items() <= pair[0].items() for each in alone)
    ]
    bought = any(effect.gpus for effect in found)
    found += sorted((pair for pair in pairs if not (pair.gpus and bought)), key=_rank)[:MAX_PAIRS]
    found = found or [_effect(job, *combination) for combination in search.combinations()]
    found.sort(key=_rank)
    measured = [replace(each, latency_s=_latency_s(job, each.remedy)) for each in found[:limit]]
    return sorted([*measured, *found[limit:]], key=_rank)


def _effect(job: ServingJob, remedy: Remedy, changed: ServingJob) -> ServingEffect:
    gpus = changed.cluster.num_gpus
    return ServingEffect(remedy, gpus if gpus > job.cluster.num_gpus else 0)


def _rank(effect: ServingEffect) -> tuple[int, int, float, int]:
    latency_s = math.inf if effect.latency_s is None else effect.latency_s
    return effect.gpus, effect.fewer_bits, latency_s, len(effect.remedy)


def _latency_s(job: ServingJob, remedy: Remedy) -> float | None:
    """Mean end-to-end latency (s) of the first requests; None if none can be simulated or completed."""
    workload = job.config.workload
    given = workload.num_requests if workload is not None else None
    settings: Remedy = {
        "workload.num_requests": min(given or REQUESTS, REQUESTS),
        "workload.duration": None,
        "simulation.duration": None,
        "simulation.lod": "medium",
        "simulation.collect_events": False,
    }
    try:
        found = simulate_job(applied(job, {**remedy, **settings})).metrics["mean_e2el_ms"]
    except SimsysError:
        return None
    return None if found is None else float(found) / 1e3
