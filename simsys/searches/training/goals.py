"""The goals of a search among layouts, and their bounds from lower bounds of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.build.economics import rates_of
from simsys.errors import UsageError
from simsys.metrics.economics import (
    OF_EPOCH,
    OF_RUN,
    PER_WORK,
    PRICED,
    Course,
    training_economics,
)
from simsys.searches.goal import MEMORY_SHARE, Goal
from simsys.searches.training.base import Base

TIMES = ("steady_iteration_s", "mean_iteration_s")
RATES = ("tokens_per_s", "samples_per_s", "tokens_per_s_per_gpu")
ECONOMIC = (*PRICED, *PER_WORK, *OF_RUN, *OF_EPOCH)
"""Metrics of `training_economics` that are least for the least time and computation of an iteration."""


def bounded(goal: Goal) -> bool:
    """Whether lower bounds of an iteration bound the metric of a goal."""
    smallest = (*TIMES, *ECONOMIC)
    return (goal.metric in smallest and not goal.largest) or (goal.metric in RATES and goal.largest)


def needs_energy(goal: Goal) -> bool:
    """Whether a bound of the metric of a goal depends on the computation of an iteration."""
    return goal.metric.startswith(("energy_", "co2_")) and bounded(goal)


def with_derived(metrics: Mapping[str, Any], memory_share: float) -> dict[str, Any]:
    """The metrics of a run with those that only a search has.

    Args:
        metrics: Metrics of a training run.
        memory_share: Memory that the fullest GPU needs, over its memory.
    """
    return {**metrics, MEMORY_SHARE: memory_share}


def check_economic(goal: Goal, base: Base) -> None:
    """Check that a scenario has what a goal of cost, energy or length of training needs.

    Raises:
        UsageError: If it lacks it.
    """
    name, target = goal.metric, base.training.target
    if name.startswith("usd_") and not base.cluster.usd_per_gpu_hour:
        raise UsageError(f"search: {name} needs prices, but the profile of the GPUs has no usd_per_hour")
    if name in OF_RUN and (target is None or target.all_tokens is None):
        raise UsageError(f"search: {name} needs the length of the training: write training.target, with tokens")
    if name in OF_EPOCH and (target is None or target.dataset_tokens is None):
        raise UsageError(f"search: {name} needs the length of an epoch: write training.target.dataset_tokens")


def optimistic(goal: Goal, base: Base, bound_s: float, computed_s: float) -> float:
    """A bound of the metric of a bounded goal, from lower bounds of an iteration.

    Args:
        goal: A goal that is `bounded`.
        base: The training.
        bound_s: A lower bound of the time of an iteration (s).
        computed_s: A lower bound of the time that a GPU computes in it, the mean of all (s).
    """
    if goal.metric in TIMES:
        return bound_s
    tokens, gpus = float(base.samples * base.tokens), base.cluster.num_gpus
    if goal.metric in RATES:
        each = {"samples_per_s": 1.0, "tokens_per_s": base.tokens, "tokens_per_s_per_gpu": base.tokens / gpus}
        return base.samples / bound_s * each[goal.metric]
    rates, target = rates_of(base.cluster, base.config.economics, gpus), base.training.target
    least = {"mean_iteration_s": bound_s, "tokens_per_s": tokens / bound_s}
    whole, epoch = (None, None) if target is None else (target.all_tokens, target.dataset_tokens)
    course = Course(bound_s, computed_s, tokens)
    return float(training_economics(least, rates, computed_s / bound_s, course, whole, epoch)[goal.metric])
