"""Errors of predictions, summed up: how many rows, how wrong, in which direction, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from simsys.fidelity.case import Prediction


@dataclass(frozen=True)
class Errors:
    """Errors of some predictions; shares of one.

    Args:
        rows: How many measured values there are.
        predicted: How many of them are predicted.
        groups: How many groups these are of.
        balanced_mape: Mean size of the error, each group counting once.
        mape: Mean size of the error, each value counting once.
        median_error: Median size of the error.
        p90_error: Size of the error that nine of ten values stay below.
        bias: Mean of the error with its sign, each group counting once.
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
        """Share of the values that is predicted."""
        return self.predicted / self.rows


def errors_of(predictions: Sequence[Prediction]) -> Errors:
    """Sum up the errors of predictions, of which there is at least one."""
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
    """Predictions by what `key` says of them, those with most rows first; where it says nothing they are left out."""
    parts: dict[str, list[Prediction]] = {}
    for each in predictions:
        name = key(each)
        if name:
            parts.setdefault(name, []).append(each)
    return dict(sorted(parts.items(), key=lambda item: (-len(item[1]), item[0])))


def by_tag(predictions: Sequence[Prediction], tag: str) -> dict[str, Errors]:
    """Errors by a tag of the cases, or by ``group`` or ``metric``."""
    return {name: errors_of(found) for name, found in split(predictions, lambda each: tag_of(each, tag)).items()}


def tag_of(prediction: Prediction, tag: str) -> str:
    """What a case says under a name; empty if nothing."""
    case = prediction.case
    return {"group": case.group, "metric": case.metric}.get(tag) or case.tags.get(tag, "")


def unsupported(predictions: Sequence[Prediction]) -> dict[str, int]:
    """How many rows are not predicted, by reason, the most frequent first."""
    found = split([each for each in predictions if each.predicted is None], lambda each: each.reason)
    return {reason: len(rows) for reason, rows in found.items()}
