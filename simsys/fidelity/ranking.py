"""Do predictions choose the right layout? Among rows that differ in nothing else: the order, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.case import Prediction, Run

FEWEST = 3
"""A set of fewer layouts has no order to speak of."""


@dataclass(frozen=True)
class Choice:
    """One set of rows that differ in nothing but their layout, and what choosing by predictions makes of it.

    Args:
        picked: A row of the layout that is predicted best.
        best: A row of the one that is best.
        rows: How many rows the set has.
        spearman: Rank correlation of predicted and measured values.
        regret: What is lost by taking the first: its measured value against that of the second, as a share. A layout
            that was measured several times counts once, with the mean of its measurements.
    """

    picked: Prediction
    best: Prediction
    rows: int
    spearman: float
    regret: float


@dataclass(frozen=True)
class Ranking:
    """How well layouts are told apart.

    Args:
        sets: Sets of rows that differ in nothing but their layout, of which there are at least three.
        rows: Rows in them.
        spearman: Mean rank correlation of predicted and measured values over the sets.
        regret: Mean over the sets of what is lost by taking the predicted best.
    """

    sets: int
    rows: int
    spearman: float
    regret: float

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> Ranking:
        """Of some sets, of which there is at least one."""
        return cls(
            sets=len(choices),
            rows=sum(each.rows for each in choices),
            spearman=fmean(each.spearman for each in choices),
            regret=fmean(each.regret for each in choices),
        )


def ranking_of(predictions: Sequence[Prediction]) -> Ranking | None:
    """How well the layouts of all sets are told apart; none if there is no set of at least three."""
    found = choices_of(predictions)
    return Ranking.of(found) if found else None


def choices_of(predictions: Sequence[Prediction]) -> list[Choice]:
    """The choices among at least three layouts that are not all alike."""
    sets: dict[Any, dict[Run, list[Prediction]]] = {}
    for each in predictions:
        if each.case.layouts and each.case.run is not None and each.predicted is not None:
            sets.setdefault((each.case.metric, each.case.layouts), {}).setdefault(each.case.run, []).append(each)
    found = [[_Layout.of(repeats) for repeats in runs.values()] for runs in sets.values()]
    return [_choice(layouts) for layouts in found if _varies(layouts)]


@dataclass(frozen=True)
class _Layout:
    """One layout: a row of it, what is predicted of it, and the mean of its measurements."""

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
    """Spearman's rank correlation, equal values sharing the mean of their ranks; 0 if one side does not vary.

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
