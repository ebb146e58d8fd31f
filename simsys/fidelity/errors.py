"""Statistics of the errors of predictions: number of rows, size, bias, and coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from simsys.fidelity.case import POOLS, Prediction


@dataclass(frozen=True)
class Errors:
    """Statistics of relative errors (0.1 is 10 %).

    Args:
        rows: Number of measured values.
        predicted: Number of values that are predicted.
        groups: Number of groups of the predicted values.
        balanced_mape: Mean absolute error; each group has the same weight.
        mape: Mean absolute error; each value has the same weight.
        median_error: Median absolute error.
        p90_error: 90th percentile of the absolute error.
        bias: Mean signed error; each group has the same weight.
    """

    rows: int
    predicted: int
    groups: int
    balanced_mape: float | None
    mape: float | None
    median_error: float | None
    p90_error: float | None
    bias: float | None

    @property
    def coverage(self) -> float:
        """Share of the measured values that are predicted."""
        return self.predicted / self.rows


def errors_of(predictions: Sequence[Prediction]) -> Errors:
    """Return the statistics of at least one prediction."""
    by_group: dict[str, list[float]] = {}
    for each in predictions:
        if each.predicted is not None:
            by_group.setdefault(each.case.group, []).append(each.error)
    sizes = sorted(abs(error) for errors in by_group.values() for error in errors)
    if not sizes:
        return Errors(len(predictions), 0, 0, None, None, None, None, None)
    return Errors(
        rows=len(predictions),
        predicted=len(sizes),
        groups=len(by_group),
        balanced_mape=fmean(fmean(map(abs, errors)) for errors in by_group.values()),
        mape=fmean(sizes),
        median_error=median(sizes),
        p90_error=sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        bias=fmean(fmean(errors) for errors in by_group.values()),
    )


def split(predictions: Sequence[Prediction], key: Callable[[Prediction], str]) -> dict[str, list[Prediction]]:
    """Group predictions by a key, largest group first; predictions with an empty key are left out."""
    parts: dict[str, list[Prediction]] = {}
    for each in predictions:
        name = key(each)
        if name:
            parts.setdefault(name, []).append(each)
    return dict(sorted(parts.items(), key=lambda item: (-len(item[1]), item[0])))


def by_tag(predictions: Sequence[Prediction], tag: str) -> dict[str, Errors]:
    """Return errors by a tag of the cases, or by ``group`` or ``metric``."""
    return {name: errors_of(found) for name, found in split(predictions, lambda each: tag_of(each, tag)).items()}


def tag_of(prediction: Prediction, tag: str) -> str:
    """Return a tag of a case, its group or its metric, of pools apart; empty if it has no such tag."""
    case = prediction.case
    metric = f"{case.metric}, {POOLS}" if case.tags.get("deployment") == POOLS else case.metric
    return {"group": case.group, "metric": metric}.get(tag) or case.tags.get(tag, "")


def unsupported(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Return the number of rows that are not predicted, by reason, most frequent first."""
    found = split([each for each in predictions if each.predicted is None], lambda each: each.reason)
    return {reason: len(rows) for reason, rows in found.items()}
