"""What a search optimises: a metric with its direction, conditions on metrics, and metrics that only a search has."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simsys.config.search import SearchConfig
from simsys.errors import UnknownNameError, UsageError
from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.metric import TRAINING

MEMORY_SHARE, COST = "peak_memory_share", "usd_per_million_tokens"
DERIVED = {
    MEMORY_SHARE: "memory that the fullest GPU needs, over its memory",
    COST: "price of the GPUs for a million tokens of training",
}
"""Metrics that a search adds to the metrics of a run."""
TIMES = ("steady_iteration_s", "mean_iteration_s")
RATES = ("tokens_per_s", "samples_per_s", "tokens_per_s_per_gpu")
MILLION = 1e6
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class Condition:
    """A condition on a metric that every answer meets."""

    text: str
    metric: str
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition such as ``peak_memory_share <= 0.92``.

        Raises:
            UsageError: If it has another form, or names no metric of training.
        """
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[3]) if match else math.nan
        except ValueError:
            limit = math.nan
        if match is None or not math.isfinite(limit):
            message = "write a metric, <, <=, > or >=, and a number: peak_memory_share <= 0.92"
            raise UsageError(f"search.subject_to: {text!r} is not a condition; {message}")
        return cls(text.strip(), check_metric(match[1], "search.subject_to"), match[2], limit)

    def holds(self, value: float | None) -> bool:
        """Whether a value of its metric meets it; a metric without a value does not."""
        return value is not None and _COMPARE[self.comparison](value, self.limit)


@dataclass(frozen=True)
class Goal:
    """What the best layout is best at.

    Args:
        metric: The metric.
        largest: Whether its largest value is best.
        conditions: Conditions that every answer meets.
    """

    metric: str
    largest: bool
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, config: SearchConfig) -> Goal:
        """Read the goal of a search.

        Raises:
            UsageError: If a metric is unknown or no number, or a condition has another form.
        """
        section = "search.maximize" if config.maximize is not None else "search.minimize"
        metric = check_metric(config.goal, section)
        return cls(metric, config.maximize is not None, tuple(map(Condition.parse, config.subject_to)))

    def key(self, value: float) -> float:
        """A number that is smallest for the best value."""
        return -value if self.largest else value

    @property
    def bounded(self) -> bool:
        """Whether a lower bound of the iteration time bounds the metric."""
        times = self.metric in TIMES or self.metric == COST
        return (times and not self.largest) or (self.metric in RATES and self.largest)


def check_metric(name: str, section: str) -> str:
    """Return the name of a metric of training.

    Raises:
        UsageError: If there is no such metric, or it is no number.
    """
    known = {each.name: each for each in metrics_by_name().values() if TRAINING in each.kinds}
    if name in DERIVED:
        return name
    if name not in known:
        raise UnknownNameError(f"metric in {section}:", name, [*known, *DERIVED])
    if not known[name].is_number:
        raise UsageError(f"{section}: {name} is a {known[name].unit}, which has no numeric value")
    return name


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
        goal: A goal that is `Goal.bounded`.
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
