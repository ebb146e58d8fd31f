"""Rules that every metric and analysis of one's own must obey."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.errors import SimsysError
from simsys.metrics.definitions import shipped_metrics
from simsys.metrics.own import KINDS, RunAnalysis, RunMetric, check_own, with_classes
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from simsys.testing.subclass import check_class, sort_of

TRAINING: Mapping[str, Any] = {
    "name": "toy-training",
    "hardware": {"profile": "dgx-a100", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 2},
}
SERVING: Mapping[str, Any] = {
    "name": "toy-serving",
    "hardware": {"gpu": "A100-SXM-80GB"},
    "model": {"name": "GPT2-Small"},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 8},
}
JOBS: Mapping[str, Any] = {**TRAINING, "name": "toy-jobs", "jobs": [{"name": "first"}, {"name": "second"}]}
SCENARIOS = {"training": TRAINING, "serving": SERVING, "jobs": JOBS}


def check_metric(cls: type, *results: RunResult) -> str:
    """Check a metric or an analysis on results of a training job, a service and two jobs, those of its `kinds`.

    It must be complete; have a name that no metric of simsys has, and known kinds; give a finite number or None, or
    observations with severities from 0 to 1; answer twice alike; and change nothing in the result.

    Args:
        cls: A subclass of `RunMetric` or `RunAnalysis`.
        results: Further results to try it on.

    Returns:
        ``ok``.

    Raises:
        AssertionError: Which rule is broken, and how.

    Example:
        >>> from simsys.metrics.own import RunMetric
        >>> from simsys.testing import check_metric
        >>> class SamplesPerDay(RunMetric):
        ...     name, unit, kinds = "samples_per_day", "1/d", ("training",)
        ...     def value(self, result):
        ...         return 86400 * result.metrics["samples_per_s"]
        >>> check_metric(SamplesPerDay)
        'ok'
    """
    own: Any = cls
    check_class(own, sort_of(own, (RunMetric, RunAnalysis), RunMetric), "metric or analysis", "simsys.metrics.own")
    try:
        check_own(own, own.__name__, shipped_metrics())
    except SimsysError as error:
        raise AssertionError(str(error)) from error
    tried = [_toy(kind) for kind in KINDS if kind in own.kinds]
    for result in (*tried, *(each for each in results if each.kind in own.kinds)):
        _check_on(own, result)
    return "ok"


def _check_on(cls: type[RunMetric | RunAnalysis], result: RunResult) -> None:
    where = f"{cls.__name__} on the result {result.name!r} of {result.kind}"
    before = deepcopy(result.as_dict())
    try:
        first, second = with_classes(result, [cls]), with_classes(result, [cls])
    except SimsysError as error:
        raise AssertionError(f"{where}: {error}") from error
    if result.as_dict() != before:
        raise AssertionError(f"{where}: it changes the result")
    if (first.metrics, first.observations) != (second.metrics, second.observations):
        raise AssertionError(f"{where}: not deterministic: two answers differ")


@cache
def _toy(kind: str) -> RunResult:
    return simulate(SimulationConfig.model_validate(SCENARIOS[kind]))
