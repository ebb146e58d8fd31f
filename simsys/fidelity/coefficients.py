"""What physics leaves open: the numbers of profiles that measurements of whole runs can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.config.hardware import (
    Kind,
    Named,
    load_engine,
    load_fabric,
    load_gpu,
    load_node,
)
from simsys.config.hardware_schema import Profile
from simsys.config.loader import deep_merge
from simsys.units import Dimension, format_quantity

LOADERS = {"gpu": load_gpu, "node": load_node, "fabric": load_fabric, "engine": load_engine}


@dataclass(frozen=True)
class Coefficient:
    """One number of a profile, or one column of a curve, which is scaled as a whole.

    Args:
        named: The profile.
        path: Where in it.
        lower: Least value; above zero.
        upper: Greatest value.
        start: Where a fit begins: at the profile's value, or between the bounds if that is nothing.
        dimension: Of a number; none of a share or factor.
        column: Of a curve: ``compute`` or ``memory``; the value is what its greatest point has.
        points: The curve that is scaled.
        families: Of which runs it is told by.
    """

    named: Named
    path: tuple[str, ...]
    lower: float
    upper: float
    start: float
    dimension: Dimension | None = None
    column: str = ""
    points: tuple[Mapping[str, Any], ...] = ()
    families: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.named[1]} {'.'.join(self.path)}" + (f" ({self.column})" if self.column else "")

    def written(self, value: float) -> Any:
        """The value as a profile has it."""
        if not self.points:
            return (
                round(value, 4) if self.dimension is None else format_quantity(float(f"{value:.3g}"), self.dimension)
            )
        greatest = max(point[self.column] for point in self.points)
        return [
            {**point, self.column: round(min(1.0, point[self.column] * value / greatest), 4)} for point in self.points
        ]


@dataclass(frozen=True)
class Free:
    """A number that may be fitted in all profiles of a kind that have it; as `Coefficient`.

    Args:
        dtypes: Of a curve: which of them; all but `STORED` if left out.
    """

    kind: Kind
    path: str
    lower: float
    upper: float
    families: tuple[str, ...]
    dimension: Dimension | None = None
    column: str = ""
    dtypes: tuple[str, ...] = ()


SECONDS = Dimension.SECONDS
TRAINING, SERVING, COLLECTIVES = ("training",), ("serving",), ("collectives",)
RUNS = TRAINING + SERVING
STORED = ("fp8_block", "weight_only")
"""Kernels of weights as they are stored for serving alone."""
ANY = ("default", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", *STORED)
FREE = (
    Free("engine", "per_layer", 1e-6, 2e-3, RUNS, SECONDS),
    Free("engine", "launch_per_layer", 1e-6, 2e-3, RUNS, SECONDS),
    Free("engine", "per_prompt_layer", 1e-6, 2e-3, SERVING, SECONDS),
    Free("engine", "prompt_hand_over.per_token", 1e-7, 1e-3, SERVING, SECONDS),
    Free("engine", "per_step", 1e-6, 1e-1, RUNS, SECONDS),
    Free("engine", "per_sequence", 1e-7, 2e-3, SERVING, SECONDS),
    Free("engine", "per_request", 1e-4, 1.0, SERVING, SECONDS),
    Free("engine", "all_reduce", 5e-7, 5e-5, SERVING, SECONDS),
    Free("engine", "elementwise", 0.3, 5.0, TRAINING),
    Free("engine", "communication_share", 0.002, 0.5, TRAINING),
    Free("engine", "loss_bytes_per_logit", 4.0, 120.0, TRAINING),
    Free("gpu", "efficiency.gemm", 0.2, 1.0, RUNS, column="compute"),
    Free("gpu", "efficiency.gemm", 0.1, 1.0, SERVING, column="compute", dtypes=STORED),
    Free("gpu", "efficiency.gemm", 0.3, 1.0, SERVING, column="memory", dtypes=ANY),
    Free("gpu", "efficiency.attention", 0.1, 1.0, RUNS, column="compute"),
    Free("gpu", "efficiency.decode_attention", 0.1, 1.0, SERVING, column="memory"),
    Free("gpu", "efficiency.memory", 0.3, 1.0, RUNS, column="memory"),
    Free("gpu", "efficiency.conv", 0.1, 1.0, TRAINING, column="compute"),
    Free("gpu", "efficiency.grouped_gemm", 0.05, 1.0, RUNS, column="compute"),
    Free("gpu", "efficiency.grouped_gemm", 0.05, 1.0, SERVING, column="compute", dtypes=STORED),
    Free("gpu", "efficiency.grouped_gemm", 0.2, 1.0, SERVING, column="memory", dtypes=ANY),
    Free("gpu", "kernel_floor.gemm", 5e-7, 3e-5, SERVING, SECONDS),
    Free("gpu", "kernel_floor.decode_attention", 5e-7, 3e-5, SERVING, SECONDS),
    Free("gpu", "kernel_gap", 0.3, 3.0, SERVING),
    Free("node", "host.core_speed", 0.5, 2.5, RUNS),
    Free("node", "interconnect.bandwidth", 1e9, 2e12, COLLECTIVES, Dimension.BYTES_PER_SECOND),
    Free("node", "nics.bandwidth", 1e8, 4e11, COLLECTIVES, Dimension.BYTES_PER_SECOND),
    Free("node", "nics.latency", 1e-7, 1e-4, COLLECTIVES, SECONDS),
)
"""What may be fitted, within which bounds, and which runs tell it."""
SERVED = tuple(
    each for each in FREE if each.families == SERVING or (each.kind == "engine" and "serving" in each.families)
)
"""What rows of serving alone tell, but for what engines have in common with training."""


def coefficients_of(profiles: Iterable[Named], free: Sequence[Free] = FREE) -> list[Coefficient]:
    """Everything that may be fitted in some profiles; each curve of a dtype is one of its own.

    Curves that kernels have told are scaled too: a GPU under load for long does not keep its clocks up, and kernels
    that follow one another in a graph begin before those before them have ended.

    Args:
        profiles: The profiles.
        free: What may be fitted.
    """
    found: list[Coefficient] = []
    for named in sorted(profiles):
        profile = LOADERS[named[0]](named[1])
        for each in free:
            if each.kind == named[0]:
                found += _coefficients(named, profile, each)
    return found


def settings(coefficients: Sequence[Coefficient], values: Sequence[float]) -> dict[Named, dict[str, Any]]:
    """What profiles say if coefficients have these values: nested settings by profile, for `overlaid`."""
    found: dict[Named, dict[str, Any]] = {}
    for coefficient, value in zip(coefficients, values, strict=True):
        inner: Any = coefficient.written(value)
        own = found.setdefault(coefficient.named, {})
        if coefficient.column:
            inner = _beside(own, coefficient, inner)
        found[coefficient.named] = deep_merge(own, _nested(coefficient.path, inner))
    return found


def _beside(own: Mapping[str, Any], coefficient: Coefficient, points: Sequence[Mapping[str, Any]]) -> Any:
    """The points of a curve, of which another column may have been set already."""
    known: Any = own
    for key in coefficient.path:
        known = known.get(key, {})
    if not known:
        return list(points)
    pairs = zip(known, points, strict=True)
    return [{**old, coefficient.column: new[coefficient.column]} for old, new in pairs]


def _coefficients(named: Named, profile: Profile, free: Free) -> list[Coefficient]:
    path, value = tuple(free.path.split(".")), _value(profile, free.path)
    if value is None:  # what a profile leaves out has no part in its runs
        return []
    if not free.column:
        by_dtype = value.items() if isinstance(value, Mapping) else ()
        numbers = {(*path, dtype): number for dtype, number in by_dtype} or {path: value}
        return [_number(named, free, place, float(number)) for place, number in numbers.items()]
    dtypes = free.dtypes or [dtype for dtype in value if dtype not in STORED]
    curves = {dtype: [point.model_dump() for point in value[dtype]] for dtype in value if dtype in dtypes}
    return [
        Coefficient(
            named,
            (*path, dtype),
            free.lower,
            free.upper,
            max(point[free.column] for point in points),
            column=free.column,
            points=tuple(points),
            families=free.families,
        )
        for dtype, points in curves.items()
    ]


def _number(named: Named, free: Free, path: tuple[str, ...], value: float) -> Coefficient:
    start = min(value, free.upper) if value > free.lower else math.sqrt(free.lower * free.upper)
    return Coefficient(named, path, free.lower, free.upper, start, free.dimension, families=free.families)


def _value(profile: Profile, path: str) -> Any:
    found: Any = profile
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
    return found


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    return {path[0]: _nested(path[1:], value) if len(path) > 1 else value}


def to_unit(coefficient: Coefficient, value: float) -> float:
    """A value as a place between the bounds, 0 to 1, even in its logarithm."""
    return math.log(value / coefficient.lower) / math.log(coefficient.upper / coefficient.lower)


def from_unit(coefficient: Coefficient, place: float) -> float:
    """The value at such a place."""
    return float(coefficient.lower * (coefficient.upper / coefficient.lower) ** place)
