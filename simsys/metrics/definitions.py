"""All metrics of results: name, unit and meaning.

The table serves ``simsys list metrics``, ``--fail-on`` and docs/reference/metrics.md; a test holds it complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from simsys.metrics.metric import JOBS, SERVING, TRAINING, Metric
from simsys.metrics.own import own_definitions
from simsys.metrics.serving_definitions import SERVING_METRICS
from simsys.metrics.training_definitions import TRAINING_METRICS


def metrics_by_name() -> Mapping[str, Metric]:
    """All metrics: training first, then serving, then several jobs, then those of the user's own that are known."""
    return {**shipped_metrics(), **{metric.name: metric for metric in own_definitions()}}


@cache
def shipped_metrics() -> Mapping[str, Metric]:
    """The metrics of simsys."""
    found: dict[str, Metric] = {}
    for metric in (*TRAINING_METRICS, *SERVING_METRICS, *ECONOMIC_METRICS, *HARDWARE_METRICS, *JOBS_METRICS):
        assert metric.name not in found, metric.name
        found[metric.name] = metric
    return found


ECONOMIC_METRICS = tuple(
    Metric(name, unit, meaning, (TRAINING, SERVING), only)
    for name, unit, meaning, only in (
        ("usd_per_hour", "USD/h", "price of all GPUs together", "with a known price"),
        ("usd_per_million_tokens", "USD", "price of a million tokens, prompts included", "with a known price"),
        ("gpu_power_watt", "W", "mean power of all GPUs together", ""),
        ("energy_per_token_j", "J", "energy of a token, prompts included, with the PUE", ""),
        ("co2_per_million_tokens_kg", "kg", "CO2 of the energy of a million tokens", ""),
    )
)
HARDWARE_METRICS = (
    Metric("num_gpus", "", "GPUs of the job, or of the cluster that jobs share", (TRAINING, JOBS)),
    Metric("gpu_utilization", "share", "time that the GPUs compute, over all of the run", (TRAINING, SERVING)),
    Metric("peak_memory_bytes", "bytes", "most memory in use on the fullest GPU", (TRAINING, SERVING)),
    Metric("memory_capacity_bytes", "bytes", "memory of a GPU that programs see", (TRAINING, SERVING)),
)
JOBS_METRICS = tuple(
    Metric(name, unit, meaning, (JOBS,))
    for name, unit, meaning in (
        ("jobs", "", "jobs that share the cluster"),
        ("makespan_s", "s", "from the start to the end of the last job"),
        ("mean_wait_s", "s", "mean time that jobs wait for GPUs"),
        ("max_wait_s", "s", "longest time that a job waits for GPUs"),
        ("gpu_allocation", "share", "GPU time that is allocated to jobs, over all GPU time until the end"),
    )
)
