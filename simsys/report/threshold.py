"""Conditions on figures under which a run counts as failed, such as ``p99_ttft_ms>200``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from simsys.errors import UnknownNameError, UsageError
from simsys.metrics.result import RunResult

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_FORM = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class Threshold:
    """A condition: the figure called `metric` compares like this with `limit`."""

    metric: str
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """Read a condition.

        Raises:
            UsageError: If it has another form or its limit is no finite number.
        """
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[3]) if match else math.nan
        except ValueError:
            limit = math.nan
        if match is None or not math.isfinite(limit):
            raise UsageError(
                f"{text!r} is not a condition; write a figure, <, <=, > or >=, and a number: p99_ttft_ms>200"
            )
        return cls(match[1], match[2], limit)

    def failure(self, result: RunResult) -> str:
        """Why a run counts as failed; empty if it does not, or has no such figure.

        A figure without a value, such as a latency when no request was completed, counts as failed.
        """
        if self.metric not in result.metrics:
            return ""
        value = result.metrics[self.metric]
        if not isinstance(value, int | float):
            return f"{result.name}: {self.metric} has no value"
        if _COMPARE[self.comparison](value, self.limit):
            return f"{result.name}: {self.metric} is {value:.6g}, {self.comparison} {self.limit:g}"
        return ""


def failures(thresholds: Sequence[Threshold], results: Sequence[RunResult]) -> list[str]:
    """Every condition that a run meets, as a sentence.

    Raises:
        UnknownNameError: If a condition names a figure that none of the runs has.
    """
    known = {name for result in results for name in result.metrics}
    for threshold in thresholds:
        if results and threshold.metric not in known:
            raise UnknownNameError("figure in --fail-on", threshold.metric, known)
    found = (threshold.failure(result) for result in results for threshold in thresholds)
    return [text for text in found if text]
