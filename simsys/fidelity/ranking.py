"""Whether predictions choose the right layout: rank correlation and regret among rows that differ only in layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.case import Prediction, Run

FEWEST = 3
"""Layouts below which a set is not ranked."""


@dataclass(frozen=True)
class Choice:
    """The choice among one set of rows that differ only in their layout.

    Args:
        picked: A row of the layout with the best prediction.
        best: A row of the layout with the best measurement.
        rows: Number of rows of the set.
        spearman: Rank correlation of predicted and measured values.
        regret: Relative loss by the choice of `picked` instead of `best`, in measured values. A layout that was
            measured several times counts once, with the mean of its measurements.
    """

    picked: Prediction
    best: Prediction
    rows: int
    spearman: float
    regret: float


@dataclass(frozen=True)
class Ranking:
    """Quality of the choices among layouts.

    Args:
        sets: Number of sets of at least three layouts.
        rows: Number of their rows.
        spearman: Mean rank correlation of predicted and measured values over the sets.
        regret: Mean regret over the sets.
    """

    sets: int
    rows: int
    spearman: float
    regret: float

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> Ranking:
        """Return the means over at least one choice."""
        return cls(
            sets=len(choices),
            rows=sum(each.rows for each in choices),
            spearman=fmean(each.spearman for each in choices),
            regret=fmean(each.regret for each in choices),
        )


def ranking_of(predictions: Sequence[Prediction]) -> Ranking | None:
    """Return the quality of all choices; None if there is no set of at least three layouts."""
    found = choices_of(predictions)
    return Ranking.of(found) if found else None


def choices_of(predictions: Sequence[Prediction]) -> list[Choice]:
    """Return the choices among at least three layouts whose measurements differ."""
    sets: dict[Any, dict[Run, list[Prediction]]] = {}
    for each in predictions:
        if each.case.layouts and each.case.run is not None and each.predicted is not None:
            sets.setdefault((each.case.metric, each.case.layouts), {}).setdefault(each.case.run, []).append(each)
    found = [[_Layout.of(repeats) for repeats in runs.values()] for runs in sets.values()]
    return [_choice(layouts) for layouts in found if _varies(layouts)]


@dataclass(frozen=True)
class _Layout:
    """One layout: one of its rows, its prediction, and the mean of its measurements."""

    row: Prediction
    predicted: float
    measured: float
    rows: int

    @classmethod
    def of(cls, repeats: Sequence[Prediction]) -> _Layout:
        first = repeats[0]
        measured = fmean(each.case.measured for each in repeats)
        return cls(first, first.predicted or 0.0, measured, len(repeats))


def _choice(layouts: Sequence[_Layout]) -> Choice:
    more_is_better = "_per_s" in layouts[0].row.case.metric
    best_of = max if more_is_better else min
    picked = best_of(layouts, key=lambda each: each.predicted)
    best = best_of(layouts, key=lambda each: each.measured)
    return Choice(
        picked=picked.row,
        best=best.row,
        rows=sum(each.rows for each in layouts),
        spearman=spearman([each.predicted for each in layouts], [each.measured for each in layouts]),
        regret=(best.measured / picked.measured if more_is_better else picked.measured / best.measured) - 1.0,
    )


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values get their mean rank, and constant values the correlation 0.

    Example:
        >>> spearman([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
        0.5
    """
    ranks = np.array([_ranks(left), _ranks(right)])
    if np.any(np.ptp(ranks, axis=1) == 0.0):
        return 0.0
    return round(float(np.corrcoef(ranks)[0, 1]), 12)


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return mean


def _varies(layouts: Sequence[_Layout]) -> bool:
    return len(layouts) >= FEWEST and len({each.measured for each in layouts}) > 1
