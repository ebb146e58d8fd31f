"""Slopes foresee sums of times exactly, and learn from what was simulated."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.fidelity.slopes import Slopes, Vector, corrected

EXPONENTS = np.array([np.log(100.0), -np.log(10.0), np.log(1000.0)])
"""Of a number of seconds, a share of a peak, and another number of seconds."""
PARTS = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, 0.1], [0.0, 0.0, 0.0]])
FIXED = np.array([1.0, 0.0, 4.0])
SIGNS = np.array([1.0, -1.0, 1.0])
HERE, THERE = np.array([0.5, 0.6, 0.2]), np.array([0.7, 0.3, 0.25])


def errors(places: Vector) -> Vector:
    """Of rows whose times are sums of parts, each proportional to a coefficient or to its inverse."""
    found: Vector = SIGNS * np.log(FIXED + PARTS @ np.exp(EXPONENTS * places))
    return found


def measured(places: Vector) -> Slopes:
    """Slopes from difference quotients."""
    step = 1e-7
    values = [(errors(places + step * np.eye(3)[column]) - errors(places)) / step for column in range(3)]
    return Slopes.measured(places, errors(places), np.array(values).T, EXPONENTS)


def test_sums_of_times_are_foreseen_everywhere() -> None:
    foreseen, slopes = measured(HERE).at(THERE)
    assert foreseen == pytest.approx(errors(THERE), abs=1e-4)
    assert slopes == pytest.approx(measured(THERE).values, abs=1e-4)


def test_slopes_at_another_point_are_as_measured_there() -> None:
    found = measured(HERE).moved(THERE, errors(THERE), np.array([True, False, True]))
    assert found.errors == pytest.approx(errors(THERE), abs=1e-4)
    assert found.values == pytest.approx(measured(THERE).values, abs=1e-3)


def test_a_change_that_was_not_foreseen_is_explained_afterwards() -> None:
    simulated = errors(THERE) + np.array([0.1, -0.1, 0.0])
    found = measured(HERE).moved(THERE, simulated, np.ones(3, bool))
    back, _ = found.at(HERE)
    assert back == pytest.approx(errors(HERE), abs=1e-6)
    assert (found.shares[PARTS == 0.0] == 0.0).all()


def test_rows_are_renewed_alone() -> None:
    known = measured(HERE).moved(THERE, errors(THERE) + 0.2, np.ones(3, bool))
    found = known.renewed(measured(THERE).values, np.array([True, False, False]))
    assert found.values[0] == pytest.approx(measured(THERE).values[0])
    assert found.values[1:] == pytest.approx(known.values[1:])


def test_corrected_shares_explain_a_step_and_leave_out_what_rows_do_not_feel() -> None:
    shares = np.array([[1.0, 0.0, 2.0], [0.5, 3.0, 0.0], [0.0, 0.0, 0.0]])
    step, change = np.array([0.1, -0.2, 0.05]), np.array([0.4, -0.1, 0.0])
    found = corrected(shares, step, change)
    assert found @ step == pytest.approx(change)
    assert (found[shares == 0.0] == 0.0).all()
    assert corrected(shares, step, shares @ step) == pytest.approx(shares)


def test_a_row_that_changes_while_its_coefficients_hardly_move_keeps_its_shares() -> None:
    """Else its shares are so large that they make the equations of a fit singular."""
    shares = np.array([[1.0, 0.0]])
    assert (corrected(shares, np.array([1e-12, 0.5]), np.array([0.1])) == shares).all()
