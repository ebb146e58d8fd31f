"""Robust least squares between bounds, of errors that `Slopes` foresee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.slopes import Slopes, Vector

Rows = NDArray[np.bool_]

OUTLIER = 0.1
"""Logarithmic error above which the weight of a row decreases (soft L1 loss)."""
ITERATIONS = 6
"""Largest number of iterations of a minimum of expected errors."""
CLOSE = 2e-3
"""Change of places below which they end."""
EXCHANGES = 12
"""Largest number of exchanges of components at and between their bounds."""
INWARD = 1e-12
"""Slope above which a component leaves its bound."""
TENTH = 0.1
"""Share of the draws beyond each end of an interval of 80 %."""


@dataclass(frozen=True)
class Objective:
    """The sum of the losses of weighted errors, and of moves of coefficients.

    Args:
        weights: The weights of the rows; their squares add up to 1.
        pulls: The derivatives of the regularisation by the places.
        start: The places at which the regularisation is 0.
        counted: The rows that count.
    """

    weights: Vector
    pulls: Vector
    start: Vector
    counted: Rows

    @property
    def scale(self) -> float:
        """The residual above which the loss grows linearly."""
        return OUTLIER * float(np.sqrt(np.mean(self.weights**2)))

    def residuals(self, places: Vector, errors: Vector) -> Vector:
        """Return the weighted errors of counted rows, then the regularisation."""
        rows = np.where(self.counted, self.weights * errors, 0.0)
        return np.concatenate([rows, self.pulls @ (places - self.start)])

    def cost(self, places: Vector, errors: Vector) -> float:
        """Return the sum of the soft L1 losses of the residuals."""
        return float(np.sum(np.sqrt(1.0 + (self.residuals(places, errors) / self.scale) ** 2) - 1.0))

    def minimum(
        self,
        model: Slopes,
        places: Vector,
        free: Rows,
        damping: float,
        *,
        reach: float,
        origin: Vector | None = None,
    ) -> Vector:
        """Return the places of the smallest expected cost nearby (iteratively reweighted Gauss-Newton steps).

        Args:
            model: Foresees the errors.
            places: Where the search begins.
            free: The coefficients that may move.
            damping: Damping factor of the distance from the origin (Levenberg 1944), which keeps coefficients in place
                on which the rows hardly depend.
            reach: Largest distance from the origin in each coefficient.
            origin: The origin; by default where the search begins.
        """
        centre = places if origin is None else origin
        least, most = np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
        places = np.clip(places, least, most)
        for _ in range(ITERATIONS):
            errors, slopes = model.at(places)
            residuals, jacobian = self._reweighted(places, errors, slopes)
            towards = jacobian.T @ residuals + damping**2 * (places - centre)
            square = jacobian.T @ jacobian + damping**2 * np.eye(len(places))
            lower, upper = np.where(free, least - places, 0.0), np.where(free, most - places, 0.0)
            step = bounded_step(square, towards, lower, upper)
            places = places + step
            if float(np.max(np.abs(step))) < CLOSE:
                break
        return places

    def intervals(
        self, model: Slopes, free: Rows, sources: Sequence[str], draws: int
    ) -> dict[int, tuple[float, float]]:
        """Return the 80 % interval of each free coefficient, by place: a bootstrap over sources (Efron 1979).

        Sources are drawn with replacement, and the best places are found for each draw with the derivatives at the
        optimum. An interval contains the fitted place also where these are 0, since a change of regime is at it.

        Args:
            model: The derivatives at the optimum.
            free: The coefficients that were fitted.
            sources: The source of each row.
            draws: Number of draws.
        """
        names = sorted(set(sources))
        place_of = {name: place for place, name in enumerate(names)}
        source = np.array([place_of[name] for name in sources])
        residuals, jacobian = self._reweighted(model.places, model.errors, model.values)
        random, found = np.random.default_rng(draws), []
        lower, upper = np.where(free, -model.places, 0.0), np.where(free, 1.0 - model.places, 0.0)
        for _ in range(draws):
            counts = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
            weights = np.concatenate([counts[source].astype(float), np.ones(len(self.pulls))])
            weighted = jacobian * weights[:, None]
            found.append(model.places + bounded_step(weighted.T @ jacobian, weighted.T @ residuals, lower, upper))
        low, high = np.quantile(np.array(found), (TENTH, 1.0 - TENTH), axis=0)
        low, high = np.minimum(low, model.places), np.maximum(high, model.places)
        return {int(place): (float(low[place]), float(high[place])) for place in np.flatnonzero(free)}

    def _reweighted(self, places: Vector, errors: Vector, slopes: Vector) -> tuple[Vector, Vector]:
        """Return residuals and their derivatives with the weights of the soft L1 loss."""
        residuals = self.residuals(places, errors)
        jacobian = np.vstack([np.where(self.counted, self.weights, 0.0)[:, None] * slopes, self.pulls])
        weights = (1.0 + (residuals / self.scale) ** 2) ** -0.25
        return weights * residuals, weights[:, None] * jacobian


def bounded_step(square: Vector, towards: Vector, lower: Vector, upper: Vector) -> Vector:
    """Return the step that minimises a quadratic function between bounds.

    Components that leave the bounds are fixed there, and the others are found anew; those that would leave a bound
    inwards are free again (block pivoting, Portugal et al. 1994).

    Args:
        square: Second derivatives of the function; positive semi-definite. Of several best steps, the shortest is
            found, so components on which the function does not depend stay.
        towards: Its first derivatives.
        lower: Least step of each component, at most 0.
        upper: Largest step of each component, at least 0.

    Example:
        >>> step = bounded_step(np.eye(2), np.array([-3.0, 0.5]), np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
        >>> step.tolist()
        [1.0, -0.5]
    """
    step: Vector = np.zeros(len(towards))
    may_move, free = upper > lower, upper > lower
    for _ in range(EXCHANGES):
        fixed = towards[free] + square[np.ix_(free, ~free)] @ step[~free]
        best = _solution(square[np.ix_(free, free)], -fixed)
        outside = (best < lower[free]) | (best > upper[free])
        step[free] = np.clip(best, lower[free], upper[free])
        slope = towards + square @ step
        back = may_move & ~free & np.where(step <= lower, slope < -INWARD, slope > INWARD)
        free = free | back
        free[np.flatnonzero(free & ~back)[outside]] = False
        if not (outside.any() or back.any()):
            break
    return step


def _solution(square: Vector, right: Vector) -> Vector:
    """Return the solution of a symmetric system; of several, the shortest."""
    try:
        return np.asarray(np.linalg.solve(square, right), dtype=np.float64)
    except np.linalg.LinAlgError:  # a draw of sources may lack all rows that depend on a coefficient
        return np.asarray(np.linalg.lstsq(square, right, rcond=None)[0], dtype=np.float64)
