"""Whether predictions choose right: rank correlation and regret among rows that differ in one choice alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.case import Prediction, Run

FEWEST = 3
"""Candidates below which a set is not ranked."""
LAYOUT = "layout"
"""The choice among layouts of a training job."""


@dataclass(frozen=True, order=True)
class Worth:
    """How good a candidate is; the smallest is the best.

    Args:
        beyond: How far a latency is beyond its limit, relative to the limit; 0 within all limits.
        cost: Time, or a cost by token, in any unit.
    """

    beyond: float
    cost: float


@dataclass(frozen=True)
class Candidate:
    """One of the measured candidates of a choice.

    Args:
        row: One of its measured values with its prediction.
        predicted: Its worth as predicted.
        measured: Its worth as measured.
        rows: Number of its measured values.
    """

    row: Prediction
    predicted: Worth
    measured: Worth
    rows: int


@dataclass(frozen=True)
class Choice:
    """The choice among one set of candidates.

    Args:
        picked: The candidate with the best prediction.
        best: The candidate with the best measurement.
        rows: Number of measured values of the set.
        spearman: Rank correlation of predicted and measured worth.
    """

    picked: Candidate
    best: Candidate
    rows: int
    spearman: float

    @property
    def regret(self) -> float:
        """Relative loss by the choice of `picked` instead of `best`, as measured: its additional time or cost.

        Beyond a limit of latency, it is the larger of that and the part beyond the limit.
        """
        picked, best = self.picked.measured, self.best.measured
        return max(picked.cost / best.cost - 1.0, picked.beyond)

    def loss_of(self, kind: str) -> float:
        """The loss as it is stated for a kind: the regret of a layout, else the share of the best throughput.

        A regret of 1, twice the cost, is half of the best throughput.
        """
        return self.regret if kind == LAYOUT else self.regret / (1.0 + self.regret)

    @classmethod
    def among(cls, candidates: Sequence[Candidate]) -> Choice:
        """Return the choice among at least one candidate."""
        return cls(
            picked=min(candidates, key=lambda each: each.predicted),
            best=min(candidates, key=lambda each: each.measured),
            rows=sum(each.rows for each in candidates),
            spearman=spearman(
                _places([each.predicted for each in candidates]), _places([each.measured for each in candidates])
            ),
        )


@dataclass(frozen=True)
class Ranking:
    """Quality of choices of one kind.

    Args:
        sets: Number of sets of at least three candidates.
        rows: Number of their measured values.
        spearman: Mean rank correlation of predicted and measured worth over the sets.
        loss: Mean loss over the sets: for layouts, additional time; otherwise, share of the best throughput.
        beyond: Share of the choices that are beyond a limit of latency as measured.
    """

    sets: int
    rows: int
    spearman: float
    loss: float
    beyond: float = 0.0

    @classmethod
    def of(cls, choices: Sequence[Choice], kind: str = LAYOUT) -> Ranking:
        """Return the means over at least one choice of a kind."""
        return cls(
            sets=len(choices),
            rows=sum(each.rows for each in choices),
            spearman=fmean(each.spearman for each in choices),
            loss=fmean(each.loss_of(kind) for each in choices),
            beyond=fmean(each.picked.measured.beyond > 0.0 for each in choices),
        )


def layout_choices(predictions: Sequence[Prediction]) -> list[Choice]:
    """Return the choices among at least three layouts whose measured times differ."""
    sets: dict[Any, dict[Run, list[Prediction]]] = {}
    for each in predictions:
        if each.case.layouts and each.case.run is not None and each.predicted is not None:
            sets.setdefault((each.case.metric, each.case.layouts), {}).setdefault(each.case.run, []).append(each)
    return choices_among([_layout(repeats) for repeats in runs.values()] for runs in sets.values())


def choices_among(sets: Iterable[Sequence[Candidate]]) -> list[Choice]:
    """Return the choices among at least three candidates whose measurements differ."""
    return [Choice.among(own) for own in sets if len(own) >= FEWEST and len({each.measured for each in own}) > 1]


def rankings(choices: Mapping[str, Sequence[Choice]]) -> dict[str, Ranking]:
    """Return the quality of the choices of each kind that has any."""
    return {kind: Ranking.of(own, kind) for kind, own in choices.items() if own}


def _layout(repeats: Sequence[Prediction]) -> Candidate:
    """Return a layout: a layout that was measured several times counts once, with the mean of its measurements."""
    first = repeats[0]
    predicted, measured = first.predicted or 0.0, fmean(each.case.measured for each in repeats)
    if "_per_s" in first.case.metric:
        predicted, measured = 1.0 / predicted, 1.0 / measured
    return Candidate(first, Worth(0.0, predicted), Worth(0.0, measured), len(repeats))


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


def _places(worths: Sequence[Worth]) -> list[float]:
    """Return the place of each in the order of all; equal ones have the same place."""
    places = {worth: float(place) for place, worth in enumerate(sorted(set(worths)))}
    return [places[worth] for worth in worths]


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return mean
