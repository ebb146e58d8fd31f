"""The metrics that a comparison shows first, and the tables of measurements that state their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.metric import Metric

HEADLINE: Mapping[str, Sequence[str]] = {
    "training": (
        *("mean_iteration_s", "steady_iteration_s", "samples_per_s", "tokens_per_s_per_gpu", "mfu", "goodput"),
        *("exposed_communication_s", "bubble_s", "peak_memory_bytes", "num_gpus"),
        *("usd_per_million_tokens", "energy_per_token_j", "time_to_train_s"),
    ),
    "serving": (
        *("served_requests_per_s", "output_throughput", "total_token_throughput"),
        *("mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms"),
        *("mean_e2el_ms", "p99_e2el_ms", "goodput_requests_per_s", "slo_attainment"),
        *("usd_per_million_output_tokens", "energy_per_output_token_j", "peak_memory_bytes"),
    ),
    "jobs": ("makespan_s", "mean_wait_s", "max_wait_s", "gpu_allocation"),
}
"""By kind of result."""
_ITERATION = (
    *("mean_iteration_s", "steady_iteration_s", "samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu"),
    *("model_flop_per_s_per_gpu", "mfu", "usd_per_iteration"),
)
_RATES = (
    *("output_throughput", "total_token_throughput", "request_throughput"),
    *("usd_per_million_tokens", "usd_per_million_output_tokens"),
)
MEASURED: Mapping[str, str] = {
    **dict.fromkeys(_ITERATION, "iteration_s"),
    **{f"{stat}_{name}_ms": f"{name}_ms" for name in ("ttft", "tpot") for stat in ("mean", "median", "p50")},
    **dict.fromkeys(_RATES, "output_tokens_per_s"),
    "duration": "e2e_s",
}
"""By metric, the measured metric with the same relative error; work and prices are known."""


def ordered_metrics(kind: str) -> list[Metric]:
    """The numeric metrics of a kind of result, headline metrics first."""
    known = {name: each for name, each in metrics_by_name().items() if kind in each.kinds and each.is_number}
    first = [name for name in HEADLINE[kind] if name in known]
    return [known[name] for name in dict.fromkeys([*first, *known])]
