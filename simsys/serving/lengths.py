"""Length distributions: how many tokens each of `count` prompts or outputs has.

Continuous distributions are rounded to the nearest token and clamped into [low, high]. Clamping moves the
mean where the bounds cut off much of the distribution; it is not corrected for. Values are drawn in order,
so the first n are the same however many are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.random import Generator
    from numpy.typing import NDArray


def fixed(tokens: int, count: int) -> list[int]:
    """Return the same length `count` times."""
    return [tokens] * count


def uniform(low: int, high: int, count: int, rng: Generator) -> list[int]:
    """Return lengths that are equally likely anywhere from `low` to `high`, both included.

    Args:
        low: Least tokens.
        high: Most tokens.
        count: How many lengths.
        rng: Where they are drawn from.
    """
    lengths: list[int] = rng.integers(low, high, count, endpoint=True).tolist()
    return lengths


def normal(mean: float, std: float, low: int, high: int, count: int, rng: Generator) -> list[int]:
    """Return normally distributed lengths.

    Args:
        mean: Mean tokens before clamping.
        std: Standard deviation in tokens before clamping.
        low: Least tokens.
        high: Most tokens.
        count: How many lengths.
        rng: Where they are drawn from.
    """
    return _clamped(rng.normal(mean, std, count), low, high)


def lognormal(mean: float, sigma: float, low: int, high: int, count: int, rng: Generator) -> list[int]:
    """Return log-normally distributed lengths, the usual shape of prompts and answers in chat traffic.

    `mean` is the arithmetic mean of the lengths, so the mean of their logarithms is
    ln(mean) - sigma² / 2 and the median is mean · exp(-sigma² / 2).

    Args:
        mean: Mean tokens before clamping.
        sigma: Standard deviation of the logarithm.
        low: Least tokens.
        high: Most tokens.
        count: How many lengths.
        rng: Where they are drawn from.
    """
    return _clamped(rng.lognormal(math.log(mean) - sigma * sigma / 2, sigma, count), low, high)


def zipf(exponent: float, low: int, high: int, count: int, rng: Generator) -> list[int]:
    """Return lengths of Zipf's law within bounds: n tokens are as likely as n to the power of -`exponent`.

    Args:
        exponent: How fast long ones become rare, 0 or more; 0 is uniform.
        low: Least tokens.
        high: Most tokens.
        count: How many lengths.
        rng: Where they are drawn from.
    """
    import numpy as np

    values = np.arange(low, high + 1)
    return _drawn(values, (values / low) ** -exponent, count, rng)


def empirical(values: Sequence[int], weights: Sequence[float], count: int, rng: Generator) -> list[int]:
    """Return lengths drawn from observed ones, with replacement.

    Args:
        values: The lengths, in tokens.
        weights: How often each occurs, in any unit; empty if equally often.
        count: How many lengths.
        rng: Where they are drawn from.
    """
    import numpy as np

    return _drawn(np.asarray(values), np.asarray(weights if len(weights) else np.ones(len(values))), count, rng)


def _drawn(values: NDArray[int64], weights: NDArray[float64], count: int, rng: Generator) -> list[int]:
    """Draw by inversion, one number for each length."""
    shares = weights.cumsum()
    at = shares.searchsorted(rng.random(count) * shares[-1], side="right").clip(max=len(values) - 1)
    lengths: list[int] = values[at].tolist()
    return lengths


def _clamped(values: NDArray[float64], low: int, high: int) -> list[int]:
    lengths: list[int] = values.round().clip(low, high).astype("int64").tolist()
    return lengths
