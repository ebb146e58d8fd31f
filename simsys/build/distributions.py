"""Draws the random values of a workload: arrival times, lengths, think times, and weighted choices."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from simsys.config.arrivals import (
    AllAtOnceArrivals,
    Arrivals,
    ClosedLoopArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    TimeVaryingArrivals,
)
from simsys.config.lengths import (
    EmpiricalLength,
    ExponentialTime,
    FixedLength,
    FixedTime,
    Length,
    LognormalLength,
    LognormalTime,
    NormalLength,
    Time,
    UniformLength,
    ZipfLength,
)
from simsys.errors import InternalError
from simsys.input_files import path_from
from simsys.rng import stream
from simsys.serving import arrivals, lengths
from simsys.serving.traces.reader import read_lengths

_FEW = 1024


def draw_arrivals(config: Arrivals, most: int, until_s: float, seed: int) -> list[float]:
    """Return the arrivals before a time, at most a number of them.

    Args:
        config: Their distribution.
        most: The largest number of arrivals.
        until_s: No arrival is at this time or later, in seconds; infinite for no limit.
        seed: The scenario's seed.
    """
    count = most if until_s == math.inf else min(_FEW, most)
    while True:
        times = _arrivals(config, count, seed)
        if count == most or times[-1] >= until_s:
            return times if until_s == math.inf else times[: bisect_left(times, until_s)]
        count = min(2 * count, most)


def _arrivals(config: Arrivals, count: int, seed: int) -> list[float]:
    rng = stream(seed, "arrivals")
    match config:
        case PoissonArrivals():
            return arrivals.poisson(config.rate, count, rng)
        case GammaArrivals():
            return arrivals.gamma(config.rate, config.burstiness, count, rng)
        case ConstantArrivals():
            return arrivals.constant(config.rate, count)
        case AllAtOnceArrivals() | ClosedLoopArrivals():
            return arrivals.all_at_once(count)
        case TimeVaryingArrivals():
            pieces = [(piece.duration, piece.rate) for piece in config.rates]
            return arrivals.time_varying(pieces, count, rng, repeat=config.repeat)
        case _:
            raise InternalError("arrivals of a trace cannot be drawn")


def draw_lengths(config: Length, count: int, seed: int, name: str, base_folder: Path) -> list[int]:
    """Return `count` lengths.

    Args:
        config: Their distribution.
        count: The number of lengths.
        seed: The scenario's seed.
        name: The name of their random stream.
        base_folder: Folder from which the relative path of a file starts.
    """
    rng = stream(seed, name)
    match config:
        case FixedLength():
            return lengths.fixed(config.tokens, count)
        case UniformLength():
            return lengths.uniform(config.low, config.high, count, rng)
        case NormalLength():
            return lengths.normal(config.mean, config.std, config.min, config.max, count, rng)
        case LognormalLength():
            return lengths.lognormal(config.mean, config.sigma, config.min, config.max, count, rng)
        case ZipfLength():
            return lengths.zipf(config.exponent, config.min, config.max, count, rng)
        case EmpiricalLength():
            return lengths.empirical(_observed(config, base_folder), config.weights or (), count, rng)
        case _:
            raise InternalError("lengths of a trace cannot be drawn")


def _observed(config: EmpiricalLength, base_folder: Path) -> Sequence[int]:
    if config.values is not None:
        return config.values
    assert config.file is not None
    assert config.column is not None
    return read_lengths(path_from(base_folder, config.file), config.column)


def draw_times(config: Time, count: int, seed: int, name: str) -> list[float]:
    """Return `count` times in seconds; `name` is the name of their random stream."""
    if isinstance(config, FixedTime):
        return [config.time] * count
    rng = stream(seed, name)
    match config:
        case ExponentialTime():
            drawn = rng.exponential(config.mean, count)
        case LognormalTime():
            drawn = rng.lognormal(math.log(config.mean) - config.sigma * config.sigma / 2, config.sigma, count)
        case _:
            drawn = rng.uniform(config.low, config.high, count)
    times_s: list[float] = drawn.tolist()
    return times_s


def draw_weighted(weights: Sequence[float], count: int, seed: int, name: str) -> list[int]:
    """Return `count` indices of `weights`, with probabilities by weight; `name` is the name of their stream."""
    return lengths.empirical(range(len(weights)), weights, count, stream(seed, name))


def draw_uniform(high: float, count: int, seed: int, name: str) -> list[float]:
    """Return `count` numbers, uniform from 0 to below `high`; `name` is the name of their random stream."""
    drawn: list[float] = (stream(seed, name).random(count) * high).tolist()
    return drawn
