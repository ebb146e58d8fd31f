"""Bands around predictions that hold 80 % of measured values, and whether they do for rows of other sources.

A band spans the quantiles of measured over predicted among held-out rows of one cell: of a metric, a GPU and an
engine, or of a metric alone where these are few. Held-out rows are predicted with coefficients that were fitted to
other sources, so a band contains the uncertainty of coefficients, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simsys.fidelity.case import Prediction
from simsys.fidelity.errors import split

SHARE = 0.8
"""Share of measured values in a band."""
FEWEST = 30
"""Rows below which a cell has no band of its own."""
PARTS = 5
"""Parts of the sources for the test of bands: each part is tested with bands from the others."""

Band = tuple[float, float]
"""Ends of a band: measured over predicted, minus 1."""


def band_of(errors: Sequence[float]) -> Band:
    """Return the band of predictions with these relative errors (predicted over measured, minus 1).

    The ends are quantiles for one more value, so that the next value is inside with the stated probability (split
    conformal prediction; Vovk et al. 2005).

    Example:
        >>> low, high = band_of([-0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25])
        >>> round(low, 3), round(high, 3)
        (-0.2, 1.0)
    """
    ratios = np.sort(1.0 / (1.0 + np.array(errors)))
    beyond = (1.0 - SHARE) / 2.0 * (len(ratios) + 1) - 1.0
    places = max(0.0, beyond), min(len(ratios) - 1.0, len(ratios) - 1.0 - beyond)
    low, high = np.interp(places, np.arange(len(ratios)), ratios) - 1.0
    return float(low), float(high)


@dataclass(frozen=True)
class Coverage:
    """How well bands hold.

    Args:
        rows: Number of values.
        inside: Share of the values that are in the bands from other sources.
        width: Median width of these bands, over the prediction.
    """

    rows: int
    inside: float
    width: float


def coverage_by_metric(predictions: Sequence[Prediction]) -> dict[str, Coverage]:
    """Return the coverage of bands by metric, of rows of several sources; metrics with few rows are left out.

    Each row is compared with the band of its cell among sources of other parts.

    Args:
        predictions: Predictions of one family.
    """
    found: dict[str, Coverage] = {}
    for metric, own in split([each for each in predictions if each.predicted is not None], _metric).items():
        tested = [pair for pair in _tested(own) if pair is not None]
        if len(tested) >= FEWEST:
            inside = [low <= ratio <= high for (low, high), ratio in tested]
            widths = [high - low for (low, high), _ in tested]
            found[metric] = Coverage(len(tested), float(np.mean(inside)), float(np.median(widths)))
    return found


def _tested(predictions: Sequence[Prediction]) -> list[tuple[Band, float] | None]:
    """Return the band for each prediction from other parts, with measured over predicted, minus 1."""
    names = sorted({_source(each) for each in predictions})
    part_of = {name: place % PARTS for place, name in enumerate(names)}
    found: list[tuple[Band, float] | None] = []
    bands = {part: _bands([each for each in predictions if part_of[_source(each)] != part]) for part in range(PARTS)}
    for each in predictions:
        own = bands[part_of[_source(each)]]
        band = own.get(_cell(each)) or own.get(())
        found.append(None if band is None else (band, 1.0 / (1.0 + each.error) - 1.0))
    return found


def _bands(predictions: Sequence[Prediction]) -> Mapping[Hashable, Band]:
    """Return the bands of cells with enough rows, and of all rows."""
    errors: dict[Hashable, list[float]] = {}
    for each in predictions:
        for cell in (_cell(each), ()):
            errors.setdefault(cell, []).append(each.error)
    return {cell: band_of(own) for cell, own in errors.items() if len(own) >= FEWEST}


def _cell(prediction: Prediction) -> Hashable:
    return prediction.case.setting


def _metric(prediction: Prediction) -> str:
    return prediction.case.metric


def _source(prediction: Prediction) -> str:
    return prediction.case.fold or prediction.case.group
