"""Bottlenecks of a run: rules over its metrics.

Every rule compares one share with a threshold and, where possible, estimates the gain of a remedy. Gains are bounds
from the metrics of this run; run the changed scenario to be sure.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.analysis.bottleneck import Bottleneck
from simsys.analysis.serving_bottlenecks import serving_bottlenecks
from simsys.analysis.training_bottlenecks import training_bottlenecks
from simsys.metrics.result import RunResult


def find_bottlenecks(result: RunResult) -> list[Bottleneck]:
    """The bottlenecks of a run or its jobs, the most severe first; empty if no threshold is passed."""
    if result.kind == "jobs":
        found = [
            replace(one, evidence=f"{job.name}: {one.evidence}")
            for job in result.jobs
            for one in find_bottlenecks(job)
        ]
    else:
        found = list((training_bottlenecks if result.kind == "training" else serving_bottlenecks)(result))
    found += [
        Bottleneck(name, each.severity, each.evidence, each.recommendations)
        for name, seen in result.observations.items()
        for each in seen
    ]
    return sorted(found, key=lambda one: -one.severity)
