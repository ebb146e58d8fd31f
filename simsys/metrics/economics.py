"""Cost and energy of serving, from the metrics of a run and the GPUs.

Cost is rent: every GPU is paid for the whole run, or while its replica is on. Energy is for GPUs only, without hosts,
network and cooling, by the linear model of Fan, Weber and Barroso (2007, "Power Provisioning for a Warehouse-sized
Computer"): power is ``idle + (peak - idle) * busy share``. Peak is the thermal design power, a cap and not an average,
so the energy is an upper estimate; the idle share is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

IDLE_SHARE = 0.15
"""Power of an idle GPU with a model in its memory, as a share of its thermal design power: an assumption."""
MILLION = 1e6
SECONDS_PER_HOUR = 3600.0


def cost(metrics: Mapping[str, Any], usd_per_hour: float) -> dict[str, float | None]:
    """Money per million tokens; None where nothing was served, and no figures at all if the price is not known.

    Args:
        metrics: The run's.
        usd_per_hour: Of all GPUs together; 0 if unknown.
    """
    if not usd_per_hour:
        return {}
    usd_per_s = usd_per_hour / SECONDS_PER_HOUR
    return {
        "usd_per_hour": usd_per_hour,
        "usd_per_million_tokens": _per(usd_per_s * MILLION, metrics["total_token_throughput"]),
        "usd_per_million_output_tokens": _per(usd_per_s * MILLION, metrics["output_throughput"]),
    }


def energy(metrics: Mapping[str, Any], tdp_watt: float, busy: float, on: float = 1.0) -> dict[str, float | None]:
    """Power of the GPUs and energy per token; None where nothing was served.

    Args:
        metrics: The run's.
        tdp_watt: Thermal design power of all GPUs together.
        busy: Share of the time that they are busy, 0 to 1.
        on: Share of the time that they are on.
    """
    watt = tdp_watt * (IDLE_SHARE * on + (1.0 - IDLE_SHARE) * busy)
    return {
        "gpu_power_watt": watt,
        "energy_per_token_j": _per(watt, metrics["total_token_throughput"]),
        "energy_per_output_token_j": _per(watt, metrics["output_throughput"]),
    }


def _per(amount_per_s: float, tokens_per_s: float) -> float | None:
    return amount_per_s / tokens_per_s if tokens_per_s else None
