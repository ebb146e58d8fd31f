"""The expected error of the ratio of two sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simsys.build.aspects import Aspects, aspects_of, different_aspects
from simsys.build.job import Job, build_job
from simsys.build.regimes import subject_of
from simsys.comparisons.headline import MEASURED
from simsys.comparisons.side import Side
from simsys.config.expected_errors import AT_ONCE, lacking, value_error
from simsys.config.expected_ratios import ratio_error

NO_SETTINGS = ("name", "description", "sweep", "search", "lab")
"""Keys of a scenario that do not change what is simulated."""
TRAINING, SERVING = "training", "serving"
MEASUREMENT = "measurement"
NO_SETTINGS = ("name", "description", "sweep", "search", "lab")
"""Parts of a scenario that change no run."""


@dataclass(frozen=True)
class Expected:
    """The expected error of a ratio.

    Args:
        text: The error for people, or a note on the missing measurements.
        median: Median relative error; None if it is not known.
        nine_of_ten: 90th percentile of the relative error.
        pairs: Number of measured pairs, or of measured values if one side is a measurement.
    """

    text: str
    median: float | None = None
    nine_of_ten: float | None = None
    pairs: int = 0


class ExpectedErrors:
    """The expected errors of the ratios of the metrics of two sides.

    Args:
        base: The side that the other one is divided by.
        other: The other side.
    """

    def __init__(self, base: Side, other: Side) -> None:
        self._base, self._other = base, other

    @cached_property
    def aspects(self) -> list[str]:
        """The aspects in which the settings differ; empty where the settings of a side are not known."""
        jobs = [self._jobs.get(side.label) for side in (self._base, self._other)]
        found: list[Aspects] = [aspects_of(job) for job in jobs if job is not None]
        return different_aspects(*found) if len(found) == 2 else []

    def of(self, metric: str) -> Expected:
        """Return the expected error of the ratio of a metric."""
        measured = [side for side in (self._base, self._other) if side.given == MEASUREMENT]
        if len(measured) == 2:
            return Expected("both are measured")
        if self._base.kind not in (TRAINING, SERVING):
            return Expected("no measurements of jobs that share a cluster")
        of = MEASURED.get(metric)
        if of is None:
            return Expected(f"no measurements of {metric}")
        if measured:
            return self._of_value(of, measured[0] is self._base)
        return self._of_ratio(of, metric)

    @cached_property
    def _jobs(self) -> Mapping[str, Job]:
        """The jobs of the sides with known settings, by label."""
        sides = (self._base, self._other)
        if self._base.kind not in (TRAINING, SERVING):
            return {}
        return {side.label: build_job(side.config) for side in sides if side.config is not None}

    @cached_property
    def _missing(self) -> list[str]:
        """The GPUs, engines and regimes of the sides of which there are no measurements."""
        found = [name for job in self._jobs.values() for name in lacking(subject_of(job))]
        return list(dict.fromkeys(found))

    def _of_value(self, of: str, base_is_measured: bool) -> Expected:
        """The error of a single prediction: a measurement has no error of the simulator to correlate with."""
        side = self._other if base_is_measured else self._base
        subject = subject_of(self._jobs[side.label])
        if of not in subject.metrics:
            return Expected(_not_under_this_load(of))
        found = value_error(subject, of, side.metrics)
        if isinstance(found, str):
            return Expected(found)
        text = (
            f"median {100 * found['median']:.0f} %, p90 {100 * found['nine_of_ten']:.0f} % "
            f"(n = {found['rows']:,} measured values; error of one prediction)"
        )
        return Expected(text, found["median"], found["nine_of_ten"], found["rows"])

    def _of_ratio(self, of: str, metric: str) -> Expected:
        if not self.aspects:
            return Expected("the same settings")
        if self._missing:
            return Expected(f"no measurements of {', '.join(self._missing)}")
        jobs = list(self._jobs.values())
        if any(of not in subject_of(job).metrics for job in jobs):
            return Expected(_not_under_this_load(of))
        if metric.endswith("_ttft_ms") and any(side.metrics.get("overloaded") for side in (self._base, self._other)):
            return Expected("no measurements of overloaded runs")
        found = ratio_error(self._base.kind, of, self.aspects)
        if isinstance(found, str):
            return Expected(found)
        return Expected(found.text(), found.median, found.nine_of_ten, found.pairs)


def _not_under_this_load(of: str) -> str:
    """A note on a metric that was measured under another load."""
    return f"no measurements of {of} {'without' if of in AT_ONCE else 'with'} all requests at once"


def other_settings(base: Side, other: Side) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ, by dotted path: the value of the base, and that of the other side."""
    if base.config is None or other.config is None:
        return {}
    here, there = (_flat(side.config.model_dump(mode="json")) for side in (base, other) if side.config is not None)
    names = [name for name in dict.fromkeys([*here, *there]) if name.partition(".")[0] not in NO_SETTINGS]
    return {name: (here.get(name), there.get(name)) for name in names if here.get(name) != there.get(name)}


def _flat(data: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found
