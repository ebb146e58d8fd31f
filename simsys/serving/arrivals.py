"""Arrival processes: when each of `count` requests arrives, in seconds from the start.

The gaps are drawn in order, so the first n times are the same however many are asked for. Times are not
rescaled to last exactly count / rate, as some load generators do: that would make each depend on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator


def poisson(rate_per_s: float, count: int, rng: Generator) -> list[float]:
    """Return the times of a Poisson process: independent, exponentially distributed gaps.

    Args:
        rate_per_s: Mean requests per second, positive.
        count: Number of requests.
        rng: Random generator of the gaps.
    """
    times: list[float] = rng.exponential(1.0 / rate_per_s, count).cumsum().tolist()
    return times


def gamma(rate_per_s: float, burstiness: float, count: int, rng: Generator) -> list[float]:
    """Return the times of a renewal process with gamma distributed gaps.

    The gaps have mean 1 / rate and coefficient of variation 1 / sqrt(burstiness), as `burstiness` is the
    shape of the gamma distribution (as in vLLM's ``bench serve``): 1 is Poisson, less is
    burstier, more is steadier.

    Args:
        rate_per_s: Mean requests per second, positive.
        burstiness: Shape of the gamma distribution, positive.
        count: Number of requests.
        rng: Random generator of the gaps.
    """
    times: list[float] = rng.gamma(burstiness, 1.0 / (rate_per_s * burstiness), count).cumsum().tolist()
    return times


def constant(rate_per_s: float, count: int) -> list[float]:
    """Return evenly spaced times, the first at 0.

    Args:
        rate_per_s: Requests per second, positive.
        count: How many requests.
    """
    return [index / rate_per_s for index in range(count)]


def time_varying(
    pieces: Sequence[tuple[float, float]], count: int, rng: Generator, *, repeat: bool = True
) -> list[float]:
    """Return the times of a Poisson process with a piecewise constant rate.

    Exact, by inversion: the times of a Poisson process of rate 1 are mapped through the inverse of the expected
    number of arrivals until then (Çinlar 1975, Introduction to Stochastic Processes, section 4.7).

    Args:
        pieces: Duration in seconds, positive, and requests per second, 0 or more and not always 0, of each piece.
        count: Number of requests.
        rng: Random generator of the gaps.
        repeat: True if the pieces repeat; otherwise the last one continues, and its rate is above 0.
    """
    import numpy as np

    durations, rates = np.array(pieces, dtype=float).T
    starts_s = np.concatenate(([0.0], durations.cumsum()))
    expected = np.concatenate(([0.0], (durations * rates).cumsum()))  # arrivals until each piece begins
    unit = rng.exponential(1.0, count).cumsum()
    rounds = np.floor(unit / expected[-1]) if repeat else np.zeros(count)
    rest = unit - rounds * expected[-1]
    # The last piece that begins at or before, so that one without arrivals is never chosen.
    piece = np.searchsorted(expected[:-1], rest, side="right").clip(1, len(rates)) - 1
    piece = np.where(rates[piece] > 0, piece, np.flatnonzero(rates)[-1])
    times_s = rounds * starts_s[-1] + starts_s[piece] + (rest - expected[piece]) / rates[piece]
    times: list[float] = np.maximum.accumulate(times_s).tolist()  # at a border, rounding may swap two
    return times


def all_at_once(count: int) -> list[float]:
    """Return `count` arrivals at time 0: an offline batch."""
    return [0.0] * count
