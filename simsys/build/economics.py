"""What the GPUs of a job cost and draw, and the assumptions about it."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.config.economics import EconomicsConfig
from simsys.metrics.economics import Rates
from simsys.sums import ordered_sum


def rates_of(cluster: Cluster, given: EconomicsConfig, num_gpus: int) -> Rates:
    """Rates of the first GPUs of a cluster.

    Args:
        cluster: The cluster.
        given: The scenario's data centre and electricity.
        num_gpus: Number of GPUs that are used and paid for.
    """
    tdp_watt = ordered_sum(gpu.tdp_watt for gpu in cluster.specs[:num_gpus])
    usd_per_hour = cluster.usd_per_gpu_hour * num_gpus
    return Rates(usd_per_hour, tdp_watt, given.idle_share, given.pue, given.g_per_kwh)


def economic_assumptions(cluster: Cluster, given: EconomicsConfig) -> list[str]:
    """Assumptions about price, power and CO2."""
    gpu, usd = cluster.gpu, cluster.usd_per_gpu_hour
    place = "GPUs only" if given.pue == 1.0 else f"GPUs times a PUE of {given.pue:g}"
    power = f"energy: counted as 0, as the profile of {gpu.name} has no tdp"
    if gpu.tdp is not None:
        idle = f"{given.idle_share:.0%} of {gpu.tdp:g} W"
        power = f"energy: {place}, {idle} when idle, all of it when busy, linear between"
    source = ", world average of 2023 (Ember)" if given.carbon_intensity is None else ""
    carbon = f"CO2: {given.g_per_kwh:g} g/kWh{source}"
    price = f"price: {usd:.4g} $/h per GPU"
    if gpu.price is not None and gpu.price.usd_per_hour == usd:
        price += f", {gpu.price.source}" + (f", {gpu.price.as_of}" if gpu.price.as_of else "")
    return [price, power, carbon] if usd else [power, carbon]
