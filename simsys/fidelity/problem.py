"""What a fit minimises: how far predictions are from measured runs, as a function of coefficients."""

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
"""Of the differences that stand for derivatives, as a share of the way between a coefficient's bounds."""
PULL = 0.03
"""How strongly a coefficient is held where it began: as an error of so much in all rows, if it went all the way."""
FEWEST_ROWS = 3
"""A coefficient that fewer rows feel is left alone."""
FELT = 1e-4
"""A row feels a coefficient whose `STEP` changes it by this share."""
NOISE = {"ttft_ms": 3.0}
"""How much farther off a metric is than others whatever the coefficients, so that its rows count less.

First tokens hang on what queues and servers do besides; tables do not even say whether they are means or medians.
"""
SLOW_S = 0.1
"""Runs that take longer are not fitted to, only predicted."""
LOST = math.log(10.0)
"""The error of a row that can no longer be predicted."""


@dataclass(frozen=True)
class Slopes:
    """Derivatives of residuals by coefficients, measured at some places of these."""

    places: Vector
    values: Vector

    def far(self, places: Vector) -> float:
        """How far other places are, as a share of the way between a coefficient's bounds."""
        return float(np.max(np.abs(self.places - places)))


class Problem:
    """Cases, coefficients, and the residuals as a function of these.

    Args:
        cases: The cases; those that cannot be predicted at the start are left out.
        simulations: Where they are simulated.
        base: Settings of profiles that hold whatever is fitted besides.
        free: What may be fitted.
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
        told = [index for index, rows in enumerate(felt) if rows >= FEWEST_ROWS]
        self.coefficients, self.rows = [candidates[index] for index in told], [felt[index] for index in told]
        self.left_alone = {
            str(each): rows for each, rows in zip(candidates, felt, strict=True) if 0 < rows < FEWEST_ROWS
        }
        if not self.coefficients:
            raise UsageError("no coefficient can be told from these rows: they do not vary in what would show it")
        self.start = np.array([to_unit(each, each.start) for each in self.coefficients])
        self._slopes = [Slopes(self.start, self._pulled(slopes[:, told]))]

    def over(self, overlay: Overlay) -> Problem:
        """The same coefficients, where others hold; their derivatives are taken to be the same."""
        found = copy(self)
        found._base = overlay
        with overlaid(overlay):
            now = {str(each): each.points for each in coefficients_of(each.named for each in self.coefficients)}
        found.coefficients = [replace(each, points=now[str(each)]) for each in self.coefficients]
        return found

    def overlay(self, coefficients: Sequence[Coefficient], values: Sequence[float]) -> Overlay:
        """Settings of profiles for some values, over those that hold anyway."""
        found: dict[Named, Mapping[str, Any]] = dict(self._base)
        for named, own in settings(coefficients, values).items():
            found[named] = deep_merge(found.get(named, {}), own)
        return found

    def residuals(self, places: Vector, counted: NDArray[np.bool_]) -> Vector:
        """Weighted logarithmic errors of the rows that count, then how far each coefficient is from where it began."""
        errors = np.zeros(len(self.cases))
        errors[counted] = self._errors(self.coefficients, places, np.flatnonzero(counted))
        return np.concatenate([self.weights * errors, PULL * (places - self.start)])

    def measured(self, places: Vector, within: float = math.inf) -> Slopes:
        """Derivatives of the residuals at the nearest place where they are known, or else here.

        Args:
            places: Of the coefficients.
            within: How far that may be at most, as a share of the way between a coefficient's bounds.
        """
        nearest = min(self._slopes, key=lambda known: known.far(places))
        if nearest.far(places) > within:
            nearest = Slopes(places, self._pulled(self._slopes_of(self.coefficients, places)))
            self._slopes.append(nearest)
        return nearest

    def _pulled(self, slopes: Vector) -> Vector:
        """Derivatives of the residuals by those of the errors."""
        return np.vstack([slopes * self.weights[:, None], PULL * np.eye(slopes.shape[1])])

    def _slopes_of(self, coefficients: Sequence[Coefficient], places: Vector) -> Vector:
        """Derivatives of the errors; 0 of rows that do not tell a coefficient."""
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
        """The rows that tell a coefficient, if they feel it."""
        pairs = zip(self.cases, self.read, strict=True)
        return np.array([coefficient.named in read and case.family in coefficient.families for case, read in pairs])

    def _moved(
        self, coefficients: Sequence[Coefficient], colour: Sequence[int], places: Vector, base: Vector
    ) -> Vector:
        """The errors at some places of those rows that the coefficients of a colour touch; else those at the base."""
        touched = np.any([self._touched(coefficients[index]) for index in colour], axis=0)
        found = base.copy()
        found[touched] = self._errors(coefficients, places, np.flatnonzero(touched))
        return found

    def _errors(
        self, coefficients: Sequence[Coefficient], places: Vector, rows: NDArray[np.intp] | None = None
    ) -> Vector:
        """Logarithmic errors of some rows, or of all."""
        values = [from_unit(each, float(place)) for each, place in zip(coefficients, places, strict=True)]
        cases = self.cases if rows is None else [self.cases[row] for row in rows]
        found = self._simulations.predict(cases, self.overlay(coefficients, values))
        return np.array([_log_error(each) for each in found])


def _weights(cases: Sequence[Case]) -> Vector:
    """The squared weights of a metric of a group are as the root of its settings, evenly divided, less for `NOISE`."""
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
    """Coefficients in sets of which no two are of profiles that the same row reads."""
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
