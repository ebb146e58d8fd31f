"""The objective of a fit: errors of predictions of measured runs, as a function of coefficients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.config.hardware import Named, overlaid
from simsys.config.loader import deep_merge
from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.coefficients import FREE, Coefficient, Free, coefficients_of, from_unit, settings, to_unit
from simsys.fidelity.predict import Overlay, Simulations

Vector = NDArray[np.float64]

STEP = 0.02
"""Step of the difference quotients, as a share of the range between the bounds of a coefficient."""
PULL = 0.03
"""Regularisation: the error in all rows that weighs as much as moving a coefficient over its whole range."""
FEWEST_ROWS = 3
"""A coefficient on which fewer rows depend is not fitted."""
FELT = 1e-4
"""A row depends on a coefficient if one `STEP` of it changes the prediction by this share."""
NOISE = {"ttft_ms": 3.0}
"""Error of a metric that no coefficient removes, over the error of other metrics; its rows get less weight.

TTFT depends on queues and HTTP servers, and tables do not say whether a value is a mean or a median.
"""
SLOW_S = 0.1
"""Processor time (s) of a simulation above which a run is predicted, but not part of the fit."""
LOST = math.log(10.0)
"""Logarithmic error of a row that can no longer be predicted."""


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the residuals by the coefficients (`values`), measured at one point (`places`)."""

    places: Vector
    values: Vector

    def far(self, places: Vector) -> float:
        """Return the largest distance to another point, as a share of the range between bounds."""
        return float(np.max(np.abs(self.places - places)))


class Problem:
    """Cases, coefficients, and the residuals as a function of the coefficients.

    Args:
        cases: The cases; cases that cannot be predicted at the start are left out.
        simulations: Simulates the cases.
        base: Settings of profiles that stay fixed during the fit.
        free: The numbers that may be fitted.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        simulations: Simulations,
        base: Overlay | None = None,
        free: Sequence[Free] = FREE,
    ) -> None:
        self._simulations, self._base = simulations, base or {}
        found = simulations.predict(cases, self._base)
        ready = [each.case for each in found if each.predicted is not None]
        self.cases = [case for case in ready if case.run is not None and simulations.cpu_s(case.run) < SLOW_S]
        if len(self.cases) < FEWEST_ROWS:
            raise UsageError(f"a fit needs at least {FEWEST_ROWS} rows that can be predicted, not {len(self.cases)}")
        self.read = [simulations.profiles(case.run) for case in self.cases if case.run is not None]
        with overlaid(self._base):
            candidates = coefficients_of(frozenset().union(*self.read), free)
        self.weights = _weights(self.cases)
        slopes = self._slopes_of(candidates, np.array([to_unit(each, each.start) for each in candidates]))
        felt = [int(rows) for rows in np.count_nonzero(np.abs(slopes) * STEP > FELT, axis=0)]
        fitted = [index for index, rows in enumerate(felt) if rows >= FEWEST_ROWS]
        self.coefficients, self.rows = [candidates[index] for index in fitted], [felt[index] for index in fitted]
        self.left_alone = {
            str(each): rows for each, rows in zip(candidates, felt, strict=True) if 0 < rows < FEWEST_ROWS
        }
        if not self.coefficients:
            raise UsageError("no coefficient can be fitted: the rows do not vary in anything that depends on one")
        self.start = np.array([to_unit(each, each.start) for each in self.coefficients])
        self._slopes = [Slopes(self.start, self._pulled(slopes[:, fitted]))]

    def over(self, overlay: Overlay) -> Problem:
        """Return a copy of the problem on another base; it reuses the measured derivatives."""
        found = copy(self)
        found._base = overlay
        with overlaid(overlay):
            now = {str(each): each.points for each in coefficients_of(each.named for each in self.coefficients)}
        found.coefficients = [replace(each, points=now[str(each)]) for each in self.coefficients]
        return found

    def overlay(self, coefficients: Sequence[Coefficient], values: Sequence[float]) -> Overlay:
        """Return the settings of profiles for these values of coefficients, merged over the base."""
        found: dict[Named, Mapping[str, Any]] = dict(self._base)
        for named, own in settings(coefficients, values).items():
            found[named] = deep_merge(found.get(named, {}), own)
        return found

    def residuals(self, places: Vector, counted: NDArray[np.bool_]) -> Vector:
        """Return the weighted logarithmic errors of the counted rows, then the regularisation of each coefficient."""
        errors = np.zeros(len(self.cases))
        errors[counted] = self._errors(self.coefficients, places, np.flatnonzero(counted))
        return np.concatenate([self.weights * errors, PULL * (places - self.start)])

    def measured(self, places: Vector, within: float = math.inf) -> Slopes:
        """Return the derivatives of the residuals measured nearest to a point; measure them there if none is near.

        Args:
            places: The point.
            within: Largest distance, as a share of the range between bounds.
        """
        nearest = min(self._slopes, key=lambda known: known.far(places))
        if nearest.far(places) > within:
            nearest = Slopes(places, self._pulled(self._slopes_of(self.coefficients, places)))
            self._slopes.append(nearest)
        return nearest

    def _pulled(self, slopes: Vector) -> Vector:
        """Return derivatives of the residuals from derivatives of the errors."""
        return np.vstack([slopes * self.weights[:, None], PULL * np.eye(slopes.shape[1])])

    def _slopes_of(self, coefficients: Sequence[Coefficient], places: Vector) -> Vector:
        """Measure the derivatives of the errors; 0 for rows that do not depend on a coefficient."""
        base = self._errors(coefficients, places)
        found = np.zeros((len(self.cases), len(coefficients)))
        for colour in _colours(coefficients, self.read):
            moved = places.copy()
            moved[colour] += np.where(places[colour] + STEP <= 1.0, STEP, -STEP)
            errors = self._moved(coefficients, colour, moved, base) - base
            for index in colour:
                touched = self._touched(coefficients[index])
                found[:, index] = np.where(touched, errors / (moved[index] - places[index]), 0.0)
        return found

    def _touched(self, coefficient: Coefficient) -> NDArray[np.bool_]:
        """Return the rows that may depend on a coefficient: they read its profile and are of its families."""
        pairs = zip(self.cases, self.read, strict=True)
        return np.array([coefficient.named in read and case.family in coefficient.families for case, read in pairs])

    def _moved(
        self, coefficients: Sequence[Coefficient], colour: Sequence[int], places: Vector, base: Vector
    ) -> Vector:
        """Return the errors at a point where the coefficients of one colour moved; other rows keep the base error."""
        touched = np.any([self._touched(coefficients[index]) for index in colour], axis=0)
        found = base.copy()
        found[touched] = self._errors(coefficients, places, np.flatnonzero(touched))
        return found

    def _errors(
        self, coefficients: Sequence[Coefficient], places: Vector, rows: NDArray[np.intp] | None = None
    ) -> Vector:
        """Return the logarithmic errors of some rows, or of all."""
        values = [from_unit(each, float(place)) for each, place in zip(coefficients, places, strict=True)]
        cases = self.cases if rows is None else [self.cases[row] for row in rows]
        found = self._simulations.predict(cases, self.overlay(coefficients, values))
        return np.array([_log_error(each) for each in found])


def _weights(cases: Sequence[Case]) -> Vector:
    """Return the weights of rows.

    The squared weights of one metric of a group add up to the square root of its number of settings, evenly divided
    among these, over the square of `NOISE`.
    """
    sizes = Counter((case.group, case.metric, case.setting) for case in cases)
    settings_of = Counter((group, metric) for group, metric, _ in sizes)
    squared = np.array(
        [
            settings_of[case.group, case.metric] ** -0.5
            / sizes[case.group, case.metric, case.setting]
            / NOISE.get(case.metric, 1.0) ** 2
            for case in cases
        ]
    )
    weights: Vector = np.sqrt(squared / np.sum(squared))
    return weights


def _log_error(prediction: Prediction) -> float:
    if prediction.predicted is None or prediction.predicted <= 0.0:
        return LOST
    return math.log(prediction.predicted / prediction.case.measured)


def _colours(coefficients: Sequence[Coefficient], read: Sequence[frozenset[Named]]) -> list[list[int]]:
    """Partition coefficients so that no row depends on two of a set; one simulation measures a set's derivatives."""
    together = {(a, b) for names in set(read) for a in names for b in names}
    colours: list[list[int]] = []
    for index, each in enumerate(coefficients):
        for colour in colours:
            if all((each.named, coefficients[other].named) not in together for other in colour):
                colour.append(index)
                break
        else:
            colours.append([index])
    return colours
