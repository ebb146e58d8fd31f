"""Failure conditions on metrics, such as ``p99_ttft_ms>200``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simsys.errors import UnknownNameError, UsageError
from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.result import RunResult

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_FORM = re.compile(r"\s*(\w+)((?:\s+\w+)?)\s*(>=|<=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class Threshold:
    """A condition that compares a metric of `simsys.metrics.definitions` with `limit`."""

    metric: str
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str, of: str = "", example: str = "p99_ttft_ms>200") -> Threshold:
        """Read a condition.

        Args:
            text: The condition.
            of: The word after the metric, such as ``ratio``; empty if the condition is on the metric itself.
            example: A valid condition, for the message.

        Raises:
            UsageError: If the form is wrong or the limit is not a finite number.
        """
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[4]) if match and match[2].strip() == of else math.nan
        except ValueError:
            limit = math.nan
        if match is None or not math.isfinite(limit):
            word = f" and the word '{of}'" if of else ""
            raise UsageError(
                f"{text!r} is not a condition; write a metric{word}, <, <=, > or >=, and a number: {example}"
            )
        return cls(match[1], match[3], limit)

    def holds(self, value: float) -> bool:
        """Whether a value meets the condition."""
        return bool(_COMPARE[self.comparison](value, self.limit))

    def failure(self, result: RunResult) -> str:
        """The reason for failing a run; empty if it passes or its kind lacks the metric.

        A metric without a value, such as a latency when no request was completed, counts as failed.
        """
        metric = metrics_by_name()[self.metric]
        if result.kind not in metric.kinds:
            return ""
        value = result.metrics.get(self.metric, metric.absent)
        if value is None:
            only = f"; a run has it only {metric.only}" if metric.only and self.metric not in result.metrics else ""
            return f"{result.name}: {self.metric} has no value{only}"
        if self.holds(value):
            return f"{result.name}: {self.metric} is {value:.6g}, {self.comparison} {self.limit:g}"
        return ""


def check_thresholds(thresholds: Sequence[Threshold], kinds: Iterable[str]) -> None:
    """Check conditions before anything is simulated.

    Args:
        thresholds: The conditions.
        kinds: Kinds of the expected results.

    Raises:
        UsageError: If a metric is unknown, not numeric, or missing from all results.
    """
    known, given = metrics_by_name(), sorted(set(kinds))
    for threshold in thresholds:
        metric = known.get(threshold.metric)
        if metric is None:
            raise UnknownNameError("metric in --fail-on", threshold.metric, known)
        if not metric.is_number:
            raise UsageError(f"--fail-on {metric.name}: it is a {metric.unit}, which has no numeric value")
        if not set(given) & set(metric.kinds):
            raise UsageError(
                f"--fail-on {metric.name}: a metric of {' and '.join(metric.kinds)}, but the file has "
                f"{' and '.join(given)} only; 'simsys list metrics' lists all"
            )


def failures(thresholds: Sequence[Threshold], results: Sequence[RunResult]) -> list[str]:
    """One sentence per condition that a run or one of its jobs meets."""
    runs = [run for result in results for run in (result, *result.jobs)]
    found = (threshold.failure(run) for run in runs for threshold in thresholds)
    return [text for text in found if text]
