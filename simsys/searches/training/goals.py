"""The goals of a search among layouts, and their bounds from a lower bound of the iteration time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simsys.searches.goal import COST, MEMORY_SHARE, Goal

TIMES = ("steady_iteration_s", "mean_iteration_s")
RATES = ("tokens_per_s", "samples_per_s", "tokens_per_s_per_gpu")
MILLION = 1e6


def bounded(goal: Goal) -> bool:
    """Whether a lower bound of the iteration time bounds the metric of a goal."""
    times = goal.metric in TIMES or goal.metric == COST
    return (times and not goal.largest) or (goal.metric in RATES and goal.largest)


def with_derived(metrics: Mapping[str, Any], memory_share: float, usd_per_gpu_hour: float) -> dict[str, Any]:
    """The metrics of a run with those that only a search has.

    Args:
        metrics: Metrics of a training run.
        memory_share: Memory that the fullest GPU needs, over its memory.
        usd_per_gpu_hour: Price of a GPU (USD per hour).
    """
    tokens_per_usd = metrics["tokens_per_s_per_gpu"] * 3600.0 / usd_per_gpu_hour if usd_per_gpu_hour else math.inf
    return {**metrics, MEMORY_SHARE: memory_share, COST: MILLION / tokens_per_usd}


def optimistic(goal: Goal, bound_s: float, samples: int, tokens: int, gpus: int, usd_per_gpu_hour: float) -> float:
    """A bound of the metric of a bounded goal, from a lower bound of the iteration time.

    Args:
        goal: A goal that is `bounded`.
        bound_s: The lower bound (s).
        samples: Samples of an iteration on all GPUs.
        tokens: Tokens of a sample.
        gpus: Number of GPUs.
        usd_per_gpu_hour: Price of a GPU (USD per hour).
    """
    if goal.metric in TIMES:
        return bound_s
    if goal.metric == COST:
        return bound_s * gpus * usd_per_gpu_hour / 3600.0 / (samples * tokens) * MILLION
    per_s = samples / bound_s
    each = {"samples_per_s": 1.0, "tokens_per_s": tokens, "tokens_per_s_per_gpu": tokens / gpus}
    return per_s * each[goal.metric]
