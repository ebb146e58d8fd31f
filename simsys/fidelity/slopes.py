"""Derivatives of predictions by coefficients, and what they say of other values of the coefficients.

A prediction is a sum of times, each proportional to a coefficient (seconds, factors) or to its inverse (shares of
peaks, bandwidths). So derivatives measured at one point give those at others without simulations, and they are
measured anew only where this fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LEAST = 0.05
"""Smallest ratio of two predictions of a row that `Slopes.at` foresees."""
SMALLEST_STEP = 1e-3
"""Relative step of coefficients below which it does not explain how a row has changed."""


@dataclass(frozen=True)
class Slopes:
    """Predictions around one point.

    Args:
        places: The point.
        errors: The logarithmic errors of the rows at the point.
        shares: Share of each row's time (or of the inverse of its rate) that is proportional to a time-like
            coefficient, by row and coefficient.
        signs: For each row, 1 for a time and -1 for a rate.
        exponents: For each coefficient, the logarithm of the factor on its time between its bounds.
    """

    places: Vector
    errors: Vector
    shares: Vector
    signs: Vector
    exponents: Vector

    @classmethod
    def measured(cls, places: Vector, errors: Vector, values: Vector, exponents: Vector) -> Slopes:
        """Return the slopes of measured derivatives (`values`) of the errors by the places."""
        shares = values / exponents
        signs = np.where(np.sum(shares, axis=1) < 0.0, -1.0, 1.0)
        return cls(places, errors, signs[:, None] * shares, signs, exponents)

    @property
    def values(self) -> Vector:
        """The derivatives of the errors by the places, at the point."""
        found: Vector = self.signs[:, None] * self.shares * self.exponents
        return found

    def at(self, places: Vector) -> tuple[Vector, Vector]:
        """Return the expected errors at another point, and the derivatives there."""
        factors = np.exp(self.exponents * (places - self.places))
        ratios = np.maximum(1.0 + self.shares @ (factors - 1.0), LEAST)
        errors: Vector = self.errors + self.signs * np.log(ratios)
        return errors, self.signs[:, None] * self.shares * (factors * self.exponents) / ratios[:, None]

    def moved(self, places: Vector, errors: Vector, simulated: NDArray[np.bool_]) -> Slopes:
        """Return the slopes around another point; the shares of each row reproduce its change between both points.

        Args:
            places: The other point.
            errors: The errors there.
            simulated: The rows whose errors are known; of other rows they are expected.
        """
        factors = np.exp(self.exponents * (places - self.places))
        ratios = np.maximum(1.0 + self.shares @ (factors - 1.0), LEAST)
        expected = self.errors + self.signs * np.log(ratios)
        shares = self.shares * factors / ratios[:, None]
        errors = np.where(simulated, errors, expected)
        change = np.exp(self.signs * (self.errors - errors)) - 1.0
        return Slopes(places, errors, corrected(shares, 1.0 / factors - 1.0, change), self.signs, self.exponents)

    def renewed(self, values: Vector, rows: NDArray[np.bool_]) -> Slopes:
        """Return the slopes with the measured derivatives of some rows in place of the expected ones."""
        new = Slopes.measured(self.places, self.errors, values, self.exponents)
        shares = np.where(rows[:, None], new.shares, self.shares)
        return Slopes(self.places, self.errors, shares, np.where(rows, new.signs, self.signs), self.exponents)


def corrected(shares: Vector, step: Vector, change: Vector) -> Vector:
    """Return coefficients of linear functions that give these changes over a step.

    Each row is changed as little as possible, and zeros stay zero (Schubert 1970: Broyden's method for sparse
    derivatives). A row whose own steps are below `SMALLEST_STEP` keeps its coefficients: it has changed for another
    reason.
    """
    steps = np.where(shares == 0.0, 0.0, step)
    squares = np.sum(steps**2, axis=1)
    missed = change - shares @ step
    needed = np.divide(missed, squares, out=np.zeros(len(missed)), where=squares > SMALLEST_STEP**2)
    found: Vector = shares + needed[:, None] * steps
    return found
