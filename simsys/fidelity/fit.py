"""Fit coefficients to measured runs: least squares of the logarithms of predicted over measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.coefficients import Coefficient, from_unit
from simsys.fidelity.predict import Overlay, Simulations
from simsys.fidelity.problem import Problem, Vector

OUTLIER = 0.1
"""Logarithmic error above which the weight of a row decreases (soft L1 loss)."""
NEAR = 0.3
"""Distance up to which measured derivatives are reused, as a share of the range between bounds."""
FARTHEST = 0.2
"""Largest step, as a share of the range between bounds."""
DAMPING = (0.02, 0.06, 0.2)
"""Damping factors (Levenberg 1944), tried in this order until a step improves the fit."""
STEPS = 16
"""Largest number of steps."""
LITTLE = 0.002
"""Relative gain below which a step with freshly measured derivatives is the last one."""


@dataclass(frozen=True)
class Fit:
    """Fitted coefficients.

    Args:
        coefficients: The coefficients.
        values: Their values.
        rows: For each, the number of rows that depend on it.
        left_alone: Coefficients on which too few rows depend, with the number of rows.
        overlay: Settings of profiles with these values.
    """

    coefficients: Sequence[Coefficient]
    values: Sequence[float]
    rows: Sequence[int]
    left_alone: Mapping[str, int]
    overlay: Overlay


def fit(problem: Problem, *, steps: int = STEPS, rows: Sequence[bool] | None = None) -> Fit:
    """Fit the coefficients of a problem by damped Gauss-Newton steps between their bounds.

    Measuring derivatives dominates the cost, so they are measured rarely and corrected by the outcome of each step in
    between (`corrected`).

    Args:
        problem: The problem.
        steps: Largest number of steps.
        rows: The rows that count; all by default. With a subset, only derivatives that were measured for the full fit
            are used.

    Raises:
        UsageError: If SciPy is not installed.
    """
    counted = np.ones(len(problem.cases), bool) if rows is None else np.array(rows, bool)
    scale = OUTLIER * float(np.sqrt(np.mean(problem.weights**2)))
    places, residuals = problem.start, problem.residuals(problem.start, counted)
    known, within, fresh = None, math.inf, True
    for _ in range(steps):
        nearest = problem.measured(places, within)
        if fresh or nearest is not known:
            known, slopes, fresh = nearest, nearest.values * _counting(counted, places)[:, None], True
        nothing_newer = fresh and (rows is not None or known.far(places) == 0.0)
        for damping in DAMPING:
            found = places + _step(slopes, residuals, places, scale, damping)
            tried = problem.residuals(found, counted)
            gain = 1.0 - _cost(tried, scale) / _cost(residuals, scale)
            if gain > 0.0:
                slopes = corrected(slopes, found - places, tried - residuals)
                places, residuals = found, tried
                break
        if gain < LITTLE and nothing_newer:
            break
        fresh = gain < LITTLE
        within = math.inf if rows is not None else 0.0 if fresh else NEAR
    values = [from_unit(each, float(place)) for each, place in zip(problem.coefficients, places, strict=True)]
    overlay = problem.overlay(problem.coefficients, values)
    return Fit(problem.coefficients, values, problem.rows, problem.left_alone, overlay)


def _counting(counted: NDArray[np.bool_], places: Vector) -> Vector:
    """Return 1 for each residual that counts (counted rows and the regularisation), otherwise 0."""
    return np.concatenate([counted.astype(float), np.ones(len(places))])


def corrected(slopes: Vector, step: Vector, change: Vector) -> Vector:
    """Return derivatives that reproduce the change of the residuals over a step.

    Each row is changed as little as possible, and zeros stay zero (Schubert 1970: Broyden's method for sparse
    derivatives).
    """
    steps = np.where(slopes == 0.0, 0.0, step)
    squares = np.sum(steps**2, axis=1)
    missed = change - slopes @ step
    shares = np.divide(missed, squares, out=np.zeros(len(missed)), where=squares > 0.0)
    found: Vector = slopes + shares[:, None] * steps
    return found


def _step(slopes: Vector, residuals: Vector, places: Vector, scale: float, damping: float) -> Vector:
    """Return the step of the linearised problem with soft L1 loss, at most `FARTHEST` long in each coefficient.

    Damping (Levenberg 1944) keeps coefficients in place on which the rows hardly depend.
    """
    try:
        from scipy.optimize import lsq_linear
    except ImportError:
        raise UsageError("fitting needs SciPy: pip install 'simsys[calibrate]'") from None
    weights = (1.0 + (residuals / scale) ** 2) ** -0.25
    lower = np.maximum(-places, -FARTHEST)
    upper = np.minimum(1.0 - places, FARTHEST)
    found: Vector = lsq_linear(
        np.vstack([weights[:, None] * slopes, damping * np.eye(len(places))]),
        np.concatenate([-weights * residuals, np.zeros(len(places))]),
        (lower, np.maximum(upper, lower + 1e-9)),
    ).x
    return found


def _cost(residuals: Vector, scale: float) -> float:
    """Return the sum of the soft L1 losses of the residuals."""
    return float(np.sum(np.sqrt(1.0 + (residuals / scale) ** 2) - 1.0))


def fit_in_turn(
    first: Problem, second: Problem | None, *, steps: int = STEPS, counts: Callable[[Case], bool] | None = None
) -> Fit:
    """Fit a problem, then a second one with the first result as its base.

    Args:
        first: The problem that is fitted first.
        second: The problem that is fitted second; its values replace values of the same coefficients in the first.
        steps: Largest number of steps of each.
        counts: Whether a case counts; all by default.

    Raises:
        UsageError: If SciPy is not installed.
    """

    def rows(problem: Problem) -> list[bool] | None:
        return [counts(case) for case in problem.cases] if counts is not None else None

    before = fit(first, steps=steps, rows=rows(first))
    if second is None:
        return before
    after = fit(second.over(before.overlay), steps=steps, rows=rows(second))
    again = {str(each) for each in after.coefficients}
    kept = [place for place, each in enumerate(before.coefficients) if str(each) not in again]
    return Fit(
        [*(before.coefficients[place] for place in kept), *after.coefficients],
        [*(before.values[place] for place in kept), *after.values],
        [*(before.rows[place] for place in kept), *after.rows],
        before.left_alone,
        after.overlay,
    )


def unseen(
    problem: Problem,
    cases: Sequence[Case],
    simulations: Simulations,
    *,
    then: Problem | None = None,
    folds: int = 5,
    steps: int = STEPS,
) -> list[Prediction]:
    """Predict each case by a fit without its fold (cross-validation); predictions are in the order of the cases.

    Args:
        problem: The problem, on a sample of the cases.
        cases: All cases.
        simulations: Simulates the cases.
        then: A second problem (`fit_in_turn`).
        folds: Number of folds.
        steps: Largest number of steps of each fit.

    Raises:
        UsageError: If there is a single fold among the cases.
    """
    names = sorted({case.fold or case.group for case in cases})
    if len(names) < 2:
        raise UsageError("the error on unseen rows needs rows of at least two groups")
    number = {name: index % min(folds, len(names)) for index, name in enumerate(names)}
    found: dict[str, Prediction] = {}
    for part in sorted(set(number.values())):
        held_out = [case for case in cases if number[case.fold or case.group] == part]
        away = {case.id for case in held_out}
        fitted = fit_in_turn(problem, then, steps=steps, counts=partial(_is_seen, away))
        found.update((each.case.id, each) for each in simulations.predict(held_out, fitted.overlay))
    return [found[case.id] for case in cases]


def _is_seen(away: Set[str], case: Case) -> bool:
    return case.id not in away
