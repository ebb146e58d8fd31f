"""Service level objectives: targets of each request, limits of statistics, and what a run misses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TARGETS = ("ttft", "tpot", "e2el")
"""Latencies of a request that may have a target."""
ATTAINMENT = "attainment"
"""The share of requests that have to meet all targets."""


def targets_s(slo: Mapping[str, float]) -> dict[str, float]:
    """The targets of a request, by latency (s)."""
    return {name: slo[name] for name in TARGETS if name in slo}


def limits_s(slo: Mapping[str, float]) -> dict[str, float]:
    """The limits of statistics, such as ``p99_ttft`` (s)."""
    return {name: limit_s for name, limit_s in slo.items() if name not in TARGETS and name != ATTAINMENT}


def missed(slo: Mapping[str, float], metrics: Mapping[str, Any]) -> list[str]:
    """What a run misses, in words, such as ``p99 TTFT 612 ms > 500 ms``; empty if it meets the SLO.

    Args:
        slo: Targets, limits and attainment; without attainment, all requests have to meet the targets.
        metrics: Metrics of the run.
    """
    found = []
    needed, attained = slo.get(ATTAINMENT, 1.0), metrics.get("slo_attainment")
    if targets_s(slo) and (attained is None or attained < needed):
        shown = "no request was served" if attained is None else f"{attained:.1%} of the requests meet all targets"
        found.append(f"{shown}, {100.0 * needed:.4g} % have to")
    for name, limit_s in limits_s(slo).items():
        value_ms = metrics.get(f"{name}_ms")
        statistic, _, latency = name.partition("_")
        label = f"{statistic} {'E2E' if latency == 'e2el' else latency.upper()}"
        if value_ms is None:
            found.append(f"{label} has no value")
        elif value_ms > 1e3 * limit_s:
            found.append(f"{label} {value_ms:.4g} ms > {1e3 * limit_s:.4g} ms")
    return found
