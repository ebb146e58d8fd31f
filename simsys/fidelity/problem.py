"""The objective of a fit: errors of predictions of measured runs, as a function of coefficients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from simsys.config.hardware import NONE_LEFT_OUT, overlaid, without_fits
from simsys.errors import UsageError
from simsys.fidelity.case import Case, log_error
from simsys.fidelity.coefficients import (
    FREE,
    Coefficient,
    Free,
    coefficients_of,
    from_unit,
    overlay_with,
    parents_of,
    to_unit,
)
from simsys.fidelity.derivatives import STEP, Derivatives
from simsys.fidelity.predict import Overlay, Simulations
from simsys.fidelity.slopes import Slopes, Vector

PARTS = 3
"""Parts of the rows; derivatives are measured for one at a time, and other rows have those of the nearest row."""
MANY = 400
"""Rows up to which derivatives are measured for all rows."""
PULL = 0.05
"""Regularisation: the error in all rows that weighs as much as moving a coefficient over its whole range, or that far
from the same coefficient of the profile that its profile extends."""
PULL_WITHOUT_TRAINING = 0.5
"""The same for coefficients on which no row of training depends, over `PULL`. Sources of training are held out as a
whole; of serving and collectives, single curves and systems, which others of their source foretell."""
FEWEST_ROWS = 4
"""A coefficient on which fewer rows depend is not fitted; it is as in the profile that its profile extends."""
MOST_LOST = 0.1
"""Share of the rows that may lack a prediction at a point of the search."""
FELT = 1e-4
"""A row depends on a coefficient if one `STEP` of it changes the prediction by this share."""
NOISE = {"ttft_ms": 1.5}
"""Error of a metric that no coefficient removes, over the error of other metrics; its rows get less weight.

TTFT depends on queues and HTTP servers, and tables do not say whether a value is a mean or a median.
"""


class Problem:
    """Cases, coefficients, and the errors as a function of the coefficients.

    Args:
        cases: The cases; cases that cannot be predicted at the start are left out.
        simulations: Simulates the cases.
        base: Settings of profiles that stay fixed during the fit.
        free: The numbers that may be fitted.
        warm: Whether the fit to all rows begins with the values of earlier fits, so that it ends sooner.
        only: Names of the profiles that are fitted; all that the cases read if empty.

    Raises:
        UsageError: If there are too few rows, or they do not vary.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        simulations: Simulations,
        base: Overlay | None = None,
        free: Sequence[Free] = FREE,
        *,
        warm: bool = False,
        only: Collection[str] = (),
    ) -> None:
        self._simulations, self._base = simulations, base or {}
        found = simulations.predict(cases, self._base)
        ready = [each for each in found if each.predicted is not None]
        self.cases = [each.case for each in ready]
        if len(self.cases) < FEWEST_ROWS:
            raise UsageError(f"a fit needs at least {FEWEST_ROWS} rows that can be predicted, not {len(self.cases)}")
        self.read = [simulations.profiles(case.run) for case in self.cases if case.run is not None]
        with overlaid(self._base):
            named = frozenset().union(*self.read)
            candidates = coefficients_of([each for each in named if not only or each[1] in only], free)
        self.weights = _weights(self.cases)
        places = np.array([to_unit(each, each.start) for each in candidates])
        first = _earlier(candidates, free) if warm else places
        self._parts = PARTS if len(self.cases) > MANY else 1
        some = self._part(0)
        measured = Derivatives(self.cases, self.read, simulations, self._base).at(candidates, first, some)
        self._borrow(measured, some)
        rows, fitted = _kept(candidates, measured)
        self.left_alone = {
            str(each): count
            for place, (each, count) in enumerate(zip(candidates, rows, strict=True))
            if count and place not in fitted
        }
        if not fitted:
            raise UsageError("no coefficient can be fitted: the rows do not vary in anything that depends on one")
        self.coefficients, self.rows = [candidates[index] for index in fitted], [rows[index] for index in fitted]
        self.start = places[fitted]
        self.pulls = _pulls(self.coefficients, _felt_in_training(self.cases, measured[:, fitted]))
        self.start_errors = np.array([log_error(each) for each in ready])
        """The errors at the start."""
        exponents = np.array([each.exponent for each in self.coefficients])
        errors = self.errors(first[fitted], np.ones(len(self.cases), bool)) if warm else self.start_errors
        self.known = [Slopes.measured(first[fitted], errors, measured[:, fitted], exponents)]
        """Derivatives in the order in which they became known; the last ones are the best."""

    def overlay(self, places: Vector, fitted: NDArray[np.bool_] | None = None) -> Overlay:
        """Return the settings of profiles at a point, merged over the base; of some coefficients, or of all."""
        kept = range(len(places)) if fitted is None else np.flatnonzero(fitted)
        values = [from_unit(self.coefficients[place], float(places[place])) for place in kept]
        return overlay_with(self._base, [self.coefficients[place] for place in kept], values)

    def errors(self, places: Vector, counted: NDArray[np.bool_]) -> Vector:
        """Return the logarithmic errors of the counted rows at a point; 0 for others.

        Raises:
            UsageError: Few rows can be predicted there, so that no step away from the start would look better.
        """
        found = np.zeros(len(self.cases))
        cases = [self.cases[row] for row in np.flatnonzero(counted)]
        predictions = self._simulations.predict(cases, self.overlay(places))
        lost = [each for each in predictions if each.predicted is None]
        if len(lost) > MOST_LOST * len(predictions):
            rows = f"{len(lost)} of {len(predictions)} rows"
            raise UsageError(f"{rows} cannot be predicted with coefficients of the fit: {lost[0].reason}")
        found[counted] = [log_error(each) for each in predictions]
        return found

    def renewed(self, slopes: Slopes, part: int) -> Slopes:
        """Return slopes with derivatives that are measured anew, for a part of the rows of each source.

        Args:
            slopes: The slopes.
            part: 0 for the first of every `PARTS` runs of a source, GPU and engine, 1 for the second …
        """
        rows = self._part(part)
        measure = Derivatives(self.cases, self.read, self._simulations, self._base, self.known[0].values != 0.0)
        found = slopes.renewed(measure.at(self.coefficients, slopes.places, rows), rows)
        self.known.append(found)
        return found

    def _part(self, part: int) -> NDArray[np.bool_]:
        """Return which rows are of a part of the runs of each kind of row, in the order of the table."""
        runs: dict[Hashable, dict[object, int]] = {}
        found = []
        for kind, case in zip(self._kinds(), self.cases, strict=True):
            places = runs.setdefault(kind, {})
            found.append(places.setdefault(case.run, len(places)) % self._parts == part % self._parts)
        return np.array(found)

    def _kinds(self) -> list[Hashable]:
        """Return the kind of each row; rows of a kind depend on the same coefficients, but for those of exchanges."""
        return [
            (case.group, *case.setting, case.tags.get("model"), case.tags.get("precision"), case.metric, read)
            for case, read in zip(self.cases, self.read, strict=True)
        ]

    def _borrow(self, measured: Vector, some: NDArray[np.bool_]) -> None:
        """Give rows that were not measured the derivatives of a row of their kind, of the same TP degree if there is.

        Of several, it is the nearest one in the table.
        """
        nearest: dict[Hashable, list[int]] = {}
        kinds, degrees = self._kinds(), [case.tags.get("tp") for case in self.cases]
        for row in np.flatnonzero(some):
            nearest.setdefault(kinds[row], []).append(int(row))
        for row in np.flatnonzero(~some):
            alike = min(nearest[kinds[row]], key=lambda other: (degrees[other] != degrees[row], abs(other - row)))
            measured[row] = measured[alike]


def _earlier(candidates: Sequence[Coefficient], free: Sequence[Free]) -> Vector:
    """Return the places of earlier fits, or of the start where there are none."""
    with without_fits(NONE_LEFT_OUT):
        known = coefficients_of({each.named for each in candidates}, free)
    fitted = {(each.named, each.path, each.column): each.start for each in known}
    values = [fitted.get((each.named, each.path, each.column), each.start) for each in candidates]
    return np.clip([to_unit(each, value) for each, value in zip(candidates, values, strict=True)], 0.0, 1.0)


def _kept(candidates: Sequence[Coefficient], measured: Vector) -> tuple[list[int], list[int]]:
    """Return the number of rows that depend on each coefficient, and the places of those that are fitted.

    Rows of a coefficient that is not fitted depend on its parent's, if it has the parent's value; their derivatives in
    `measured` are moved there.
    """
    parents, rows, fitted = parents_of(candidates), [0] * len(candidates), []
    for place in sorted(range(len(candidates)), key=lambda place: -_generation(parents, place)):
        rows[place] = int(np.count_nonzero(np.abs(measured[:, place]) * STEP > FELT))
        parent = parents[place]
        if rows[place] >= FEWEST_ROWS:
            fitted.append(place)
        elif parent is not None and _alike(candidates[place], candidates[parent]):
            measured[:, parent] += measured[:, place]
    return rows, sorted(fitted)


def _generation(parents: Sequence[int | None], place: int) -> int:
    """Return the number of ancestors of a coefficient."""
    parent = parents[place]
    return 0 if parent is None else 1 + _generation(parents, parent)


def _alike(one: Coefficient, other: Coefficient) -> bool:
    return one.start == other.start and one.points == other.points


def _felt_in_training(cases: Sequence[Case], measured: Vector) -> NDArray[np.bool_]:
    """Return on which coefficients any row of training depends."""
    training = np.array([case.family == "training" for case in cases])
    felt: NDArray[np.bool_] = (measured[training] != 0.0).any(axis=0)
    return felt


def _pulls(coefficients: Sequence[Coefficient], trained: NDArray[np.bool_]) -> Vector:
    """Return the derivatives of the regularisation: how far each coefficient moves, less how far its parent does."""
    found: Vector = np.eye(len(coefficients))
    for place, parent in enumerate(parents_of(coefficients)):
        if parent is not None:
            found[place, parent] = -1.0
    return np.where(trained, PULL, PULL_WITHOUT_TRAINING * PULL)[:, None] * found


def _weights(cases: Sequence[Case]) -> Vector:
    """Return the weights of rows.

    The squared weights of serving are equal, but for `NOISE`. Elsewhere those of one metric of a group add up to the
    square root of its number of settings, evenly divided among these. The squared weights of each family add up to the
    same.
    """
    sizes = Counter((case.group, case.metric, case.setting) for case in cases)
    settings_of = Counter((group, metric) for group, metric, _ in sizes)
    squared = np.array(
        [
            NOISE.get(case.metric, 1.0) ** -2
            if case.family == "serving"
            else settings_of[case.group, case.metric] ** -0.5 / sizes[case.group, case.metric, case.setting]
            for case in cases
        ]
    )
    families = np.array([case.family for case in cases])
    for family in set(families):
        squared[families == family] /= np.sum(squared[families == family])
    weights: Vector = np.sqrt(squared / np.sum(squared))
    return weights
