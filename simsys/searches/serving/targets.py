"""Whether a run meets the latency targets of its scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.metrics.kv_headroom import beyond_headroom, counts_waits
from simsys.metrics.slo import ATTAINMENT, targets_s
from simsys.metrics.slo import missed as slo_missed
from simsys.searches.simulated import MISSED

OVERLOADED = "overloaded: the queue grows while requests arrive"
FULL = "less of the KV cache is free than search.kv_headroom"


def required_share(config: SimulationConfig) -> float:
    """Share of the requests that have to meet all targets; 0 if requests have no targets."""
    slo = config.slo
    return slo.demands[ATTAINMENT] if slo is not None and targets_s(slo.demands) else 0.0


def headroom_of(config: SimulationConfig, asked: float) -> float:
    """Share of the KV cache that has to be free: as asked if the SLO limits latencies with waits, else 0."""
    return asked if config.slo is not None and counts_waits(config.slo.demands) else 0.0


def missed(config: SimulationConfig, metrics: Mapping[str, Any], headroom: float = 0.0) -> str:
    """Why a run does not meet the SLO; empty if it does.

    Args:
        config: The scenario.
        metrics: Metrics of the run.
        headroom: Share of the KV cache that has to be free at its fullest moment.
    """
    if config.slo is None:
        return ""
    if metrics.get("overloaded"):
        return OVERLOADED
    if slo_missed(config.slo.demands, metrics):
        return MISSED
    return FULL if beyond_headroom(metrics, headroom) else ""
