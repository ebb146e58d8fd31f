"""Do predictions choose the right layout? Among rows that differ in nothing else: the order, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.case import Prediction

FEWEST = 3
"""A set of fewer layouts has no order to speak of."""


@dataclass(frozen=True)
class Ranking:
    """How well layouts are told apart.

    Args:
        sets: Sets of rows that differ in nothing but their layout.
        rows: Rows in them.
        spearman: Mean rank correlation of predicted and measured values over the sets.
        regret: Mean over the sets of what is lost by taking the predicted best: its measured value against that of
            the best, as a share.
    """

    sets: int
    rows: int
    spearman: float
    regret: float


def ranking_of(predictions: Sequence[Prediction]) -> Ranking | None:
    """How well the layouts of all sets are told apart; none if there is no set of at least three."""
    sets: dict[Any, list[Prediction]] = {}
    for each in predictions:
        if each.case.layouts and each.predicted is not None:
            sets.setdefault((each.case.metric, each.case.layouts), []).append(each)
    found = [members for members in sets.values() if _varies(members)]
    if not found:
        return None
    return Ranking(
        sets=len(found),
        rows=sum(map(len, found)),
        spearman=fmean(spearman(_predicted(members), _measured(members)) for members in found),
        regret=fmean(_regret(members) for members in found),
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


def _varies(members: Sequence[Prediction]) -> bool:
    return len(members) >= FEWEST and len({each.case.measured for each in members}) > 1


def _regret(members: Sequence[Prediction]) -> float:
    more_is_better = "_per_s" in members[0].case.metric
    measured = _measured(members)
    sign = -1.0 if more_is_better else 1.0
    chosen = measured[int(np.argmin(sign * np.asarray(_predicted(members))))]
    return max(measured) / chosen - 1.0 if more_is_better else chosen / min(measured) - 1.0


def _predicted(members: Sequence[Prediction]) -> list[float]:
    return [each.predicted for each in members if each.predicted is not None]


def _measured(members: Sequence[Prediction]) -> list[float]:
    return [each.case.measured for each in members]
