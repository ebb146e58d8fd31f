"""Arrival processes: when each of `count` requests arrives, in seconds from the start.

The gaps are drawn in order, so the first n times are the same however many are asked for. Times are not
rescaled to last exactly count / rate, as some load generators do: that would make each depend on all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator


def poisson(rate_per_s: float, count: int, rng: Generator) -> list[float]:
    """Return the times of a Poisson process: independent, exponentially distributed gaps.

    Args:
        rate_per_s: Mean requests per second, positive.
        count: How many requests.
        rng: Where the gaps are drawn from.
    """
    times: list[float] = rng.exponential(1.0 / rate_per_s, count).cumsum().tolist()
    return times


def gamma(rate_per_s: float, burstiness: float, count: int, rng: Generator) -> list[float]:
    """Return the times of a renewal process whose gaps are gamma distributed.

    The gaps have mean 1 / rate and coefficient of variation 1 / sqrt(burstiness), as `burstiness` is the
    shape of the gamma distribution (the meaning it has in vLLM's ``bench serve``): 1 is Poisson, less is
    burstier, more is steadier.

    Args:
        rate_per_s: Mean requests per second, positive.
        burstiness: Shape of the gamma distribution, positive.
        count: How many requests.
        rng: Where the gaps are drawn from.
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


def all_at_once(count: int) -> list[float]:
    """Return `count` arrivals at time 0: an offline batch."""
    return [0.0] * count
