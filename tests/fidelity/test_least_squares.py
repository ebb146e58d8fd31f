"""Minima between bounds."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.fidelity.least_squares import Objective, bounded_step
from simsys.fidelity.slopes import Slopes


def test_a_step_between_bounds_is_the_best_one() -> None:
    from scipy.optimize import lsq_linear

    random = np.random.default_rng(7)
    jacobian, residuals = random.normal(size=(30, 6)), random.normal(size=30)
    jacobian[:, 3] *= 0.1  # the one that needs the longest step
    lower, upper = np.full(6, -0.3), np.full(6, 0.3)
    step = bounded_step(jacobian.T @ jacobian, jacobian.T @ residuals, lower, upper)
    best = lsq_linear(jacobian, -residuals, (lower, upper)).x
    assert step == pytest.approx(best, abs=1e-6)
    assert np.max(np.abs(step)) == 0.3, "a bound counts"


def test_coefficients_that_may_not_move_stay() -> None:
    step = bounded_step(np.eye(2), np.array([1.0, 1.0]), np.array([-1.0, 0.0]), np.array([1.0, 0.0]))
    assert step.tolist() == [-1.0, 0.0]


def test_a_minimum_is_found_within_reach_and_outliers_count_little() -> None:
    """Nine rows ask for twice the time, one for a hundred times."""
    rows = np.ones((10, 1))
    errors = np.array([-np.log(2.0)] * 9 + [-np.log(100.0)])
    model = Slopes.measured(np.array([0.5]), errors, rows * np.log(1e4), np.array([np.log(1e4)]))
    objective = Objective(np.full(10, 10**-0.5), np.array([[1e-6]]), np.array([0.5]), np.ones(10, bool))
    free = np.array([True])
    far = objective.minimum(model, model.places, free, 0.0, reach=0.5)
    near = objective.minimum(model, model.places, free, 0.0, reach=0.01)
    assert 1e4 ** (far[0] - 0.5) == pytest.approx(2.0, rel=0.05)
    assert near[0] == pytest.approx(0.51)
    assert objective.cost(far, model.at(far)[0]) < objective.cost(near, model.at(near)[0])


def test_what_nothing_depends_on_stays() -> None:
    square = np.diag([2.0, 0.0])
    step = bounded_step(square, np.array([-1.0, 0.0]), np.full(2, -1.0), np.full(2, 1.0))
    assert step == pytest.approx([0.5, 0.0])


def test_an_interval_of_a_coefficient_of_one_source_is_found_without_that_source_too() -> None:
    """Without regularisation, nothing depends on the second coefficient in a draw without the source b."""
    slopes = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    model = Slopes.measured(np.array([0.5, 0.5]), np.array([0.1, -0.1, 0.05]), slopes, np.ones(2))
    objective = Objective(np.full(3, 3**-0.5), np.zeros((0, 2)), np.array([0.5, 0.5]), np.ones(3, bool))
    found = objective.intervals(model, np.ones(2, bool), ["a", "c", "b"], 20)
    assert set(found) == {0, 1}
    assert all(0.0 <= low <= 0.5 <= high <= 1.0 for low, high in found.values())
    assert found[1][0] < 0.5
