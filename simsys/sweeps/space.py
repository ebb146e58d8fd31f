"""The points of a space of settings: grids, columns that vary together, random points and Latin hypercubes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from simsys.config.ranges import parse_range, values_of
from simsys.config.sweep import SampleConfig, SweepConfig
from simsys.rng import stream


@dataclass(frozen=True, slots=True)
class Axis:
    """Settings that vary together.

    Args:
        paths: The paths of the settings.
        rows: Their values, one tuple for each position on the axis.
    """

    paths: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def axes_of(sweep: SweepConfig) -> list[Axis]:
    """The axes of a sweep; its points are their product, the last axis varying fastest.

    Args:
        sweep: The section; its number of points has been checked.
    """
    axes = [Axis((path,), [(value,) for value in values_of(given)]) for path, given in sweep.over.items()]
    for group in sweep.zip:
        axes.append(Axis(tuple(group), list(zip(*map(values_of, group.values()), strict=True))))
    if sweep.sample is not None:
        axes.append(Axis(tuple(sweep.sample.over), list(_drawn(sweep.sample))))
    return axes


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[Any, ...]]:
    """The values of every point, in the order of the paths of the axes."""
    for rows in product(*(axis.rows for axis in axes)):
        yield tuple(value for row in rows for value in row)


def _drawn(sample: SampleConfig) -> Iterator[tuple[Any, ...]]:
    """The values of drawn points. Each setting has its own random stream."""
    columns = [_column(path, given, sample) for path, given in sample.over.items()]
    return zip(*columns, strict=True)


def _column(path: str, given: Any, sample: SampleConfig) -> list[Any]:
    """The drawn values of a setting; of a Latin hypercube, one from each part of equal size."""
    draws, count = stream(sample.seed, path), sample.points
    shares = draws.random(count)
    if sample.kind == "latin_hypercube":
        shares = (draws.permutation(count) + shares) / count
    interval = parse_range(given) if isinstance(given, str) else None
    if interval is not None and not interval.has_step:
        return [interval.at(float(share)) for share in shares]
    values = values_of(given)
    return [values[min(int(share * len(values)), len(values) - 1)] for share in shares]
