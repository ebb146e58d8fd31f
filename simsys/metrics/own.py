"""Metrics and analyses of the user's own: classes that a scenario names, computed from the result of its run.

They are found as framework modules are: by ``package.module:Class``, by the name under which they are registered, or
in the entry-point groups ``simsys.metrics`` and ``simsys.analyses`` of a distribution. A metric is one number of a
result; an analysis finds observations with a severity, and its greatest severity is a metric, too.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, TypeVar

from simsys.errors import SimsysError, UsageError
from simsys.metrics.metric import JOBS, SERVING, TRAINING, Metric
from simsys.metrics.observation import Observation
from simsys.metrics.result import RunResult
from simsys.registry import Registry
from simsys.user_modules import with_place

KINDS = (TRAINING, SERVING, JOBS)
SEVERITY = "_severity"
"""Ending of the name of the metric of an analysis."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")


class Own(ABC):
    """Base of metrics and analyses of the user's own.

    Attributes:
        name: Its name in results, in lower case with underscores.
        meaning: Its meaning, in a sentence.
        kinds: Kinds of results that have it: ``training``, ``serving``, ``jobs``.
    """

    name: ClassVar[str]
    meaning: ClassVar[str] = ""
    kinds: ClassVar[tuple[str, ...]] = (TRAINING, SERVING)

    @classmethod
    @abstractmethod
    def definition(cls) -> Metric:
        """The definition of its metric."""


class RunMetric(Own):
    """A metric of the user's own; `value` computes it.

    Attributes:
        unit: Unit of the value; empty for a count.
    """

    unit: ClassVar[str] = ""

    @abstractmethod
    def value(self, result: RunResult) -> float | None:
        """The value for a result; None if it has none."""

    @classmethod
    def definition(cls) -> Metric:
        """Its definition."""
        return Metric(cls.name, cls.unit, cls.meaning or cls.name, cls.kinds, "where the scenario names it")


class RunAnalysis(Own):
    """An analysis of the user's own; `find` returns what it has found."""

    @abstractmethod
    def find(self, result: RunResult) -> Iterable[Observation]:
        """The observations about a result."""

    @classmethod
    def definition(cls) -> Metric:
        """The definition of its severity as a metric."""
        meaning = f"greatest severity of the analysis {cls.name}" + (f": {cls.meaning}" if cls.meaning else "")
        return Metric(cls.name + SEVERITY, "share", meaning, cls.kinds, "where the scenario names it", 0.0)


METRICS = Registry("metric", "", "simsys.metrics")
ANALYSES = Registry("analysis", "", "simsys.analyses")
OwnClass = TypeVar("OwnClass", bound=type[Own])


def register_metric(cls: OwnClass) -> OwnClass:
    """Class decorator that makes a metric known under its name."""
    return METRICS.register(cls.name)(cls)


def register_analysis(cls: OwnClass) -> OwnClass:
    """Class decorator that makes an analysis known under its name."""
    return ANALYSES.register(cls.name)(cls)


def own_metric(name: str, shipped: Iterable[str] = ()) -> type[RunMetric]:
    """The metric of this name, or of this ``package.module:Class``; known by its own name from then on.

    Args:
        name: The name.
        shipped: Names that are taken.

    Raises:
        UsageError: If there is none, or its class is not complete.
    """
    cls = METRICS.get(name, RunMetric)
    check_own(cls, name, shipped)
    return register_metric(cls)


def own_analysis(name: str, shipped: Iterable[str] = ()) -> type[RunAnalysis]:
    """The analysis of this name; arguments and errors as `own_metric`."""
    cls = ANALYSES.get(name, RunAnalysis)
    check_own(cls, name, shipped)
    return register_analysis(cls)


def own_definitions() -> Iterator[Metric]:
    """The definitions of all metrics and analyses that are registered or installed."""
    _import_installed()
    for registry in (METRICS, ANALYSES):
        for name in registry.imported():
            cls: type[Own] = registry.get(name, Own)
            yield cls.definition()


@cache
def _import_installed() -> None:
    """Import those of other distributions; one that fails is left out, and a scenario that names it is refused."""
    for registry in (METRICS, ANALYSES):
        for name in registry.names():
            with suppress(SimsysError):
                registry.get(name, Own)


def with_own(result: RunResult, metrics: Sequence[str], analyses: Sequence[str]) -> RunResult:
    """A result with metrics and analyses of the user's own.

    Args:
        result: The result of a run.
        metrics: Names of metrics.
        analyses: Names of analyses.

    Raises:
        UsageError: If one of them fails, or gives something else than figures.
    """
    if not metrics and not analyses:
        return result
    return with_classes(result, [*map(own_metric, metrics), *map(own_analysis, analyses)])


def with_classes(result: RunResult, classes: Sequence[type[RunMetric | RunAnalysis]]) -> RunResult:
    """A result with what metrics and analyses of these classes find; raises as `with_own`."""
    values: dict[str, float | None] = {}
    found: dict[str, Sequence[Observation]] = {}
    for cls in classes:
        if result.kind not in cls.kinds:
            continue
        if issubclass(cls, RunMetric):
            values[cls.name] = _number(cls, _called(cls, cls().value, result))
        else:
            seen = _called(cls, _all_found, cls, result)
            found[cls.name] = [_observation(cls, each) for each in seen]
            values[cls.name + SEVERITY] = max((each.severity for each in found[cls.name]), default=0.0)
    jobs = tuple(with_classes(job, classes) for job in result.jobs)
    return replace(result, metrics={**result.metrics, **values}, observations=found, jobs=jobs)


def check_own(cls: type[Own], name: str, shipped: Iterable[str]) -> None:
    """Check the name and the kinds of a metric or an analysis.

    Args:
        cls: The class.
        name: What messages call it.
        shipped: Names that are taken.

    Raises:
        UsageError: If one of them is wrong.
    """
    own = getattr(cls, "name", None)
    if not isinstance(own, str) or not _NAME.fullmatch(own):
        raise UsageError(f"{name}: its class needs a name in lower case with underscores: name = 'tokens_per_joule'")
    if cls.definition().name in shipped:
        raise UsageError(f"{name}: simsys has a metric {cls.definition().name!r} already; choose another name")
    other = next((kind for kind in cls.kinds if kind not in KINDS), None)
    if other is not None:
        raise UsageError(f"{name}: kinds of results are {', '.join(KINDS)}, not {other!r}")


def _all_found(cls: type[RunAnalysis], result: RunResult) -> list[Any]:
    return list(cls().find(result))


def _called(cls: type[Own], function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's returns; an error of it names the class and the line."""
    try:
        return function(*arguments)
    except SimsysError:
        raise
    except Exception as error:  # whatever a class of the user's may raise
        raise UsageError(f"{cls.name} fails: {with_place(error)}") from error


def _number(cls: type[Own], value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{cls.name}: a finite number or None is needed, not {value!r}")
    return value


def _observation(cls: type[Own], found: Any) -> Observation:
    if not isinstance(found, Observation):
        raise UsageError(f"{cls.name}: an analysis finds instances of Observation, not {found!r}")
    severity = _number(cls, found.severity)
    if severity is None or not 0.0 <= severity <= 1.0:
        raise UsageError(f"{cls.name}: a severity is between 0 and 1, not {found.severity!r}")
    return found
