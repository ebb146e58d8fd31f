"""Fit coefficients to measured runs: least squares of the logarithms of predicted over measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.coefficients import Coefficient, from_unit
from simsys.fidelity.least_squares import Objective
from simsys.fidelity.predict import Overlay, Simulations
from simsys.fidelity.problem import Problem
from simsys.fidelity.slopes import Slopes, Vector

FARTHEST = 0.2
"""Largest step, as a share of the range between bounds."""
DAMPING = (0.02, 0.06, 0.2)
"""Damping factors (Levenberg 1944), tried in this order until a step improves the fit."""
STEPS = 16
"""Largest number of steps."""
STEPS_OF_A_FOLD = 1
"""Largest number of steps of a search without some rows, which begins at the minimum of the expected errors."""
LITTLE = 0.002
"""Relative gain below which a search measures derivatives anew, or ends."""
RENEWALS = 1
"""How often a search measures derivatives anew, each time for another part of the rows."""
STARTS = 4
"""Number of places from which the expected errors are minimised."""
AWAY = 0.15
"""Distance of further starts from the first one in every coefficient, as a share of the range between bounds."""
APART = 0.05
"""Distance of two minima that are different."""
SLOW_S = 10.0
"""Expected processor time (s) of a simulation above which a row is not predicted by a fit without its fold."""
TAKES_LONG = f"a simulation of more than {SLOW_S:g} s of processor time, left out of the cross-validation"
EDGE = 1e-3
"""Distance from a bound below which a coefficient is at it."""
RELEASES, RELEASES_OF_A_FOLD = 3, 1
"""Largest number of searches, each without the coefficients that the ones before took to their bounds."""


@dataclass(frozen=True)
class Fit:
    """Fitted coefficients.

    Args:
        coefficients: The coefficients.
        values: Their values.
        rows: For each, the number of rows that depend on it.
        left_alone: Coefficients on which too few rows depend, with the number of rows.
        at_bounds: Coefficients that rows took to their bounds; they are not fitted.
        overlay: Settings of profiles with these values.
        intervals: For each, the bounds of its 80 % interval (`Objective.intervals`); empty if it was not asked for.
    """

    coefficients: Sequence[Coefficient]
    values: Sequence[float]
    rows: Sequence[int]
    left_alone: Mapping[str, int]
    at_bounds: Sequence[str]
    overlay: Overlay
    intervals: Sequence[tuple[float, float]] = ()


@dataclass
class Search:
    """A search for the best coefficients.

    Args:
        problem: The problem.
        counted: The rows that count.
        steps: Largest number of steps.
        measures: Whether derivatives are measured anew; otherwise only those that are known are used.
    """

    problem: Problem
    counted: NDArray[np.bool_]
    steps: int
    measures: bool
    places: Vector = field(init=False)
    model: Slopes = field(init=False)
    free: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self.objective = Objective(problem.weights, problem.pulls, problem.start, self.counted)
        self.model, self._renewals = problem.known[0] if self.measures else problem.known[-1], 0
        self.places = self.model.places if self.measures else problem.start
        self.free = np.ones(len(self.places), bool)

    def run(self) -> None:
        """Search; then again without the coefficients at their bounds, which stay as they were."""
        self._start_anywhere()
        self._descend()
        for _ in range(RELEASES if self.measures else RELEASES_OF_A_FOLD):
            stuck = self.free & ((self.places < EDGE) | (self.places > 1.0 - EDGE))
            if not stuck.any():
                return
            self.free &= ~stuck
            self._go_to(np.where(stuck, self.objective.start, self.places))
            self._descend()

    def _start_anywhere(self) -> None:
        """Go to the best of the minima of the expected errors from several starts, if it is better in truth.

        A search without some rows uses the derivatives of the fit to all rows, as approximate cross-validation does
        (Beirami et al. 2017), and holds coefficients near the start, which has not seen the held-out rows.
        """
        random = np.random.default_rng(STARTS)
        found: list[Vector] = []
        for number in range(STARTS if self.measures else 1):
            away = random.choice((-AWAY, AWAY), len(self.places)) if number else np.zeros(len(self.places))
            start = np.clip(self.model.places + away, 0.0, 1.0)
            best = self.objective.minimum(self.model, start, self.free, DAMPING[0], reach=1.0, origin=self.places)
            if all(np.max(np.abs(best - other)) > APART for other in found):
                found.append(best)
        model, errors = self.model, self.model.errors if self.measures else self.problem.start_errors
        least = self.objective.cost(self.places, errors)
        self.model = model.moved(self.places, errors, self.counted)
        for place in found:
            errors = self.problem.errors(place, self.counted)
            if (cost := self.objective.cost(place, errors)) < least:
                least, self.places, self.model = cost, place, model.moved(place, errors, self.counted)

    def _descend(self) -> None:
        """Take steps until they gain little, with derivatives measured anew in between."""
        for _ in range(self.steps):
            gain = self._step()
            if gain >= LITTLE:
                continue
            if self.measures and self._renewals < RENEWALS:
                self.model = self.problem.renewed(self.model, self._renewals + 1)
                self._renewals += 1
            else:
                return

    def _step(self) -> float:
        """Take the first step that improves the fit, and return the relative gain."""
        cost = self.objective.cost(self.places, self.model.errors)
        for damping in DAMPING:
            found = self.objective.minimum(self.model, self.places, self.free, damping, reach=FARTHEST)
            errors = self.problem.errors(found, self.counted)
            gain = 1.0 - self.objective.cost(found, errors) / cost
            if gain > 0.0:
                self.places, self.model = found, self.model.moved(found, errors, self.counted)
                return gain
        return 0.0

    def _go_to(self, places: Vector) -> None:
        errors = self.problem.errors(places, self.counted)
        self.places, self.model = places, self.model.moved(places, errors, self.counted)


def fit(problem: Problem, *, steps: int = STEPS, rows: Sequence[bool] | None = None, draws: int = 0) -> Fit:
    """Fit the coefficients of a problem: steps to the minimum of the expected errors (`Slopes`) nearby.

    Args:
        problem: The problem.
        steps: Largest number of steps.
        rows: The rows that count; all by default. With a subset, only derivatives that were measured for the full fit
            are used.
        draws: Number of draws for the intervals of coefficients; without any, there are none.
    """
    counted = np.ones(len(problem.cases), bool) if rows is None else np.array(rows, bool)
    search = Search(problem, counted, steps, rows is None)
    search.run()
    if rows is None:
        problem.known.append(search.model)
    kept = [int(place) for place in np.flatnonzero(search.free)]
    intervals: list[tuple[float, float]] = []
    if draws:
        sources = [case.fold or case.group for case in problem.cases]
        ends = search.objective.intervals(search.model, search.free, sources, draws)
        intervals = [
            (from_unit(problem.coefficients[place], low), from_unit(problem.coefficients[place], high))
            for place, (low, high) in ends.items()
        ]
    return Fit(
        [problem.coefficients[place] for place in kept],
        [from_unit(problem.coefficients[place], float(search.places[place])) for place in kept],
        [problem.rows[place] for place in kept],
        problem.left_alone,
        [str(problem.coefficients[place]) for place in np.flatnonzero(~search.free)],
        problem.overlay(search.places, search.free),
        intervals,
    )


def unseen(
    problem: Problem, cases: Sequence[Case], simulations: Simulations, *, folds: int = 5, steps: int = STEPS_OF_A_FOLD
) -> list[Prediction]:
    """Predict each case by a fit without its fold (cross-validation); predictions are in the order of the cases.

    Cases whose simulations take longer than `SLOW_S` are not predicted, which is the reason that they have.

    Args:
        problem: The problem, on a sample of the cases.
        cases: All cases.
        simulations: Simulates the cases.
        folds: Number of folds.
        steps: Largest number of steps of each fit.

    Raises:
        UsageError: If there is a single fold among the cases.
    """
    names = sorted({case.fold or case.group for case in cases})
    if len(names) < 2:
        raise UsageError("the error on unseen rows needs rows of at least two groups")
    number = {name: index % min(folds, len(names)) for index, name in enumerate(names)}
    found = {case.id: Prediction(case, reason=case.reason or TAKES_LONG) for case in cases}
    cpu_s = simulations.expected_cpu_s(cases)
    tested = [case for case in cases if case.run is not None and cpu_s[case.run] < SLOW_S]
    for part in sorted(set(number.values())):
        held_out = [case for case in tested if number[case.fold or case.group] == part]
        away = {case.id for case in held_out}
        fitted = fit(problem, steps=steps, rows=[case.id not in away for case in problem.cases])
        found.update((each.case.id, each) for each in simulations.predict(held_out, fitted.overlay))
    return [found[case.id] for case in cases]
