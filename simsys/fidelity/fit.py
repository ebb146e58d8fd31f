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
"""Logarithmic error beyond which a row counts less and less."""
NEAR = 0.3
"""How far derivatives hold, as a share of the way between a coefficient's bounds."""
FARTHEST = 0.2
"""How far a step goes at most, as a share of the way between a coefficient's bounds."""
DAMPING = (0.02, 0.06, 0.2)
"""How strongly steps are held back, the first that makes anything better; as `PULL`, but to where the step begins."""
STEPS = 16
"""Most steps of a search."""
LITTLE = 0.002
"""A step that gains less is the last, if derivatives were measured where it began."""


@dataclass(frozen=True)
class Fit:
    """Coefficients that were fitted.

    Args:
        coefficients: Which.
        values: Their values.
        rows: How many rows feel each.
        left_alone: Coefficients that too few rows feel, with their number.
        overlay: Settings of profiles with them.
    """

    coefficients: Sequence[Coefficient]
    values: Sequence[float]
    rows: Sequence[int]
    left_alone: Mapping[str, int]
    overlay: Overlay


def fit(problem: Problem, *, steps: int = STEPS, rows: Sequence[bool] | None = None) -> Fit:
    """Fit the coefficients of a problem: damped Gauss-Newton steps between their bounds.

    Derivatives, which cost most, are measured now and then. In between they are corrected by what each step has shown,
    until those that were measured do better.

    Args:
        problem: What is to be fitted.
        steps: Most steps.
        rows: Which of the rows count; all if left out. If not all, none but those derivatives are taken that a fit of
            all has measured.

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
    """Which residuals count: of these rows, and how far each coefficient has gone."""
    return np.concatenate([counted.astype(float), np.ones(len(places))])


def corrected(slopes: Vector, step: Vector, change: Vector) -> Vector:
    """Slopes that explain how residuals have changed with a step.

    Each row's are changed as little as possible, and only where they are not zero (Schubert 1970, as Broyden's method
    for sparse derivatives).
    """
    steps = np.where(slopes == 0.0, 0.0, step)
    squares = np.sum(steps**2, axis=1)
    missed = change - slopes @ step
    shares = np.divide(missed, squares, out=np.zeros(len(missed)), where=squares > 0.0)
    found: Vector = slopes + shares[:, None] * steps
    return found


def _step(slopes: Vector, residuals: Vector, places: Vector, scale: float, damping: float) -> Vector:
    """The step that would do if all were linear, at most `FARTHEST`; outliers count as in a soft absolute value.

    It is damped (Levenberg 1944), so that what rows hardly tell stays where it is.
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
    """Soft absolute values of the residuals, summed."""
    return float(np.sum(np.sqrt(1.0 + (residuals / scale) ** 2) - 1.0))


def fit_in_turn(
    first: Problem, second: Problem | None, *, steps: int = STEPS, counts: Callable[[Case], bool] | None = None
) -> Fit:
    """Fit a problem, and then another one where the coefficients of the first hold.

    Args:
        first: What is fitted first.
        second: What is fitted then; what it shares with the first counts as it is found here.
        steps: Most steps of each.
        counts: Which cases count; all if left out.

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
    """Predict each case by a fit that has not seen its fold; in their order.

    Args:
        problem: What is fitted, with a sample of the cases.
        cases: All cases.
        simulations: Where they are simulated.
        then: What is fitted after that (`fit_in_turn`).
        folds: In how many parts the cases are divided.
        steps: Most steps of each search.

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
