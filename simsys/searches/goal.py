"""What a search optimises: a metric with its direction, conditions on metrics, and metrics that only a search has."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simsys.config.search import SearchConfig
from simsys.errors import UnknownNameError, UsageError
from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.metric import SERVING, TRAINING

MEMORY_SHARE, COST, NUM_GPUS = "peak_memory_share", "usd_per_million_tokens", "num_gpus"
GOODPUT = "goodput"
DERIVED: Mapping[str, Mapping[str, str]] = {
    TRAINING: {
        MEMORY_SHARE: "memory that the fullest GPU needs, over its memory",
    },
    SERVING: {
        NUM_GPUS: "GPUs of all replicas",
        GOODPUT: "greatest rate of requests that meets the SLO in the steady state (1/s)",
    },
}
"""Metrics that a search adds to the metrics of a run, by kind of scenario."""
DEFAULTS = {TRAINING: "steady_iteration_s", SERVING: COST}
"""The metric that is minimized by default."""
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
    def parse(cls, text: str, kind: str = TRAINING) -> Condition:
        """Read a condition such as ``peak_memory_share <= 0.92``.

        Raises:
            UsageError: If it has another form, or names no metric of this kind of scenario.
        """
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[3]) if match else math.nan
        except ValueError:
            limit = math.nan
        if match is None or not math.isfinite(limit):
            message = "write a metric, <, <=, > or >=, and a number: peak_memory_share <= 0.92"
            raise UsageError(f"search.subject_to: {text!r} is not a condition; {message}")
        return cls(text.strip(), check_metric(match[1], "search.subject_to", kind), match[2], limit)

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
        kind: Kind of the scenario, ``training`` or ``serving``.
    """

    metric: str
    largest: bool
    conditions: tuple[Condition, ...] = ()
    kind: str = TRAINING

    @classmethod
    def of(cls, config: SearchConfig, kind: str) -> Goal:
        """Read the goal of a search.

        Raises:
            UsageError: If a metric is unknown or no number, or a condition has another form.
        """
        section = "search.maximize" if config.maximize is not None else "search.minimize"
        metric = check_metric(config.maximize or config.minimize or DEFAULTS[kind], section, kind)
        conditions = tuple(Condition.parse(text, kind) for text in config.subject_to)
        return cls(metric, config.maximize is not None, conditions, kind)

    def key(self, value: float) -> float:
        """A number that is smallest for the best value."""
        return -value if self.largest else value


def check_metric(name: str, section: str, kind: str) -> str:
    """Return the name of a metric of a kind of scenario.

    Raises:
        UsageError: If there is no such metric, or it is no number.
    """
    known = {each.name: each for each in metrics_by_name().values() if kind in each.kinds}
    if name in DERIVED[kind]:
        return name
    if name not in known:
        raise UnknownNameError(f"metric in {section}:", name, [*known, *DERIVED[kind]])
    if not known[name].is_number:
        raise UsageError(f"{section}: {name} is a {known[name].unit}, which has no numeric value")
    return name


def more_is_better(metric: str) -> bool:
    """Whether the largest value of a metric is the best one."""
    words = ("_per_s", "throughput", "goodput", "attainment", "mfu", "hfu", "attained_peak_share", "gpu_utilization")
    return any(word in metric for word in words)
