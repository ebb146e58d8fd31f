"""Coefficients: numbers of profiles that no data sheet states and that are fitted to measured runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.config.hardware import (
    Kind,
    Named,
    inherited,
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
        path: Its keys in the profile.
        lower: Smallest value; above zero.
        upper: Largest value.
        start: Start value of a fit: the profile's value, or a value between the bounds if that is 0 or missing.
        dimension: Of a quantity; None for a share or factor.
        column: For a curve: ``compute`` or ``memory``; the value is the largest point of the curve.
        points: The curve that is scaled.
        families: The families of runs that determine it.
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

    @property
    def exponent(self) -> float:
        """The logarithm of the factor, between its bounds, on the times that are proportional to it or its inverse."""
        rate = bool(self.column) or self.dimension is Dimension.BYTES_PER_SECOND or self.path[-1] == "core_speed"
        return math.log(self.upper / self.lower) * (-1.0 if rate else 1.0)

    def written(self, value: float) -> Any:
        """Return the value as written in a profile."""
        if not self.points:
            return (
                round(value, 4) if self.dimension is None else format_quantity(float(f"{value:.3g}"), self.dimension)
            )
        greatest = max(point[self.column] for point in self.points)
        return [
            {**point, self.column: float(f"{min(1.0, point[self.column] * value / greatest):.4g}")}
            for point in self.points
        ]


@dataclass(frozen=True)
class Free:
    """A number that may be fitted in all profiles of a kind that have it; arguments as for `Coefficient`.

    Args:
        dtypes: For a curve: its dtypes; all except `STORED` by default.
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
"""Dtypes of kernels that only serving uses: weights are stored in fewer bits."""
ANY = ("default", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", *STORED)
FREE = (
    Free("engine", "per_layer", 1e-6, 2e-3, RUNS, SECONDS),
    Free("engine", "launch_per_layer", 1e-6, 2e-3, RUNS, SECONDS),
    Free("engine", "launch_factors.experts", 0.02, 20.0, SERVING),
    Free("engine", "launch_factors.latent_attention", 0.02, 20.0, SERVING),
    Free("engine", "launch_factors.linear_attention", 0.02, 20.0, SERVING),
    Free("engine", "expert_effort.default", 0.3, 5.0, SERVING),
    Free("engine", "expert_effort.fp8_block", 0.3, 5.0, SERVING),
    Free("engine", "expert_effort.weight_only", 0.3, 5.0, SERVING),
    Free("engine", "per_prompt_layer", 1e-6, 2e-3, SERVING, SECONDS),
    Free("engine", "prompt_hand_over.per_token", 1e-7, 1e-3, SERVING, SECONDS),
    Free("engine", "per_step", 1e-6, 1e-1, RUNS, SECONDS),
    Free("engine", "step_hand_over", 1e-6, 1e-2, SERVING, SECONDS),
    Free("engine", "per_sequence", 1e-7, 2e-3, SERVING, SECONDS),
    Free("engine", "per_cached_token", 1e-9, 1e-6, SERVING, SECONDS),
    Free("engine", "per_output", 1e-7, 2e-3, SERVING, SECONDS),
    Free("engine", "per_request", 1e-4, 1.0, SERVING, SECONDS),
    Free("engine", "all_reduce", 5e-7, 5e-5, SERVING, SECONDS),
    Free("engine", "elementwise", 0.3, 5.0, TRAINING),
    Free("engine", "expert_elementwise", 0.3, 20.0, TRAINING),
    Free("engine", "communication_share", 0.002, 0.5, TRAINING),
    Free("engine", "loss_bytes_per_logit", 4.0, 120.0, TRAINING),
    Free("gpu", "efficiency.gemm", 0.2, 1.0, RUNS, column="compute"),
    Free("gpu", "efficiency.gemm", 0.1, 1.0, SERVING, column="compute", dtypes=STORED),
    Free("gpu", "efficiency.gemm", 0.3, 1.0, SERVING, column="memory", dtypes=ANY),
    Free("gpu", "efficiency.attention", 0.1, 1.0, RUNS, column="compute"),
    Free("gpu", "efficiency.decode_attention", 0.1, 1.0, SERVING, column="memory"),
    Free("gpu", "efficiency.paged_attention", 0.0005, 1.0, SERVING, column="compute"),
    Free("gpu", "efficiency.masked_attention", 0.0005, 1.0, SERVING, column="compute"),
    Free("gpu", "efficiency.masked_attention", 0.1, 1.0, SERVING, column="memory"),
    Free("gpu", "efficiency.blocked_attention", 0.0005, 1.0, SERVING, column="compute"),
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
"""The numbers that may be fitted, with their bounds and the runs that determine them."""


def coefficients_of(profiles: Iterable[Named], free: Sequence[Free] = FREE) -> list[Coefficient]:
    """Return the coefficients of some profiles; each dtype of a curve is a coefficient.

    Curves that were fitted to kernels are scaled too: clocks drop under sustained load, and consecutive kernels of a
    graph overlap at their ends.

    Args:
        profiles: The profiles.
        free: The numbers that may be fitted.
    """
    found: list[Coefficient] = []
    for named in sorted(profiles):
        profile = LOADERS[named[0]](named[1])
        for each in free:
            if each.kind == named[0]:
                found += _coefficients(named, profile, each)
    return found


def settings(coefficients: Sequence[Coefficient], values: Sequence[float]) -> dict[Named, dict[str, Any]]:
    """Return the settings of profiles for these values of coefficients, nested, by profile, for `overlaid`."""
    found: dict[Named, dict[str, Any]] = {}
    for coefficient, value in zip(coefficients, values, strict=True):
        inner: Any = coefficient.written(value)
        own = found.setdefault(coefficient.named, {})
        if coefficient.column:
            inner = _with_column(own, coefficient, inner)
        found[coefficient.named] = deep_merge(own, _nested(coefficient.path, inner))
    return found


def overlay_with(
    base: Mapping[Named, Mapping[str, Any]], coefficients: Sequence[Coefficient], values: Sequence[float]
) -> dict[Named, Mapping[str, Any]]:
    """Return settings of profiles with these values of coefficients merged over them."""
    found = dict(base)
    for named, own in settings(coefficients, values).items():
        found[named] = deep_merge(found.get(named, {}), own)
    return found


def parents_of(coefficients: Sequence[Coefficient]) -> list[int | None]:
    """Return, for each coefficient, the place of the same one of the nearest profile that its profile extends."""
    places = {(each.named, each.path, each.column): place for place, each in enumerate(coefficients)}
    found: list[int | None] = []
    for each in coefficients:
        kind, name = each.named
        place = None
        while place is None and (name := inherited(kind, name)[0]):
            place = places.get(((kind, name), each.path, each.column))
        found.append(place)
    return found


def _with_column(own: Mapping[str, Any], coefficient: Coefficient, points: Sequence[Mapping[str, Any]]) -> Any:
    """Return the points of a curve; keeps another column that was set before."""
    known: Any = own
    for key in coefficient.path:
        known = known.get(key, {})
    if not known:
        return list(points)
    pairs = zip(known, points, strict=True)
    return [{**old, coefficient.column: new[coefficient.column]} for old, new in pairs]


def _coefficients(named: Named, profile: Profile, free: Free) -> list[Coefficient]:
    path, value = tuple(free.path.split(".")), _value(profile, free.path)
    if value is None:  # a profile without the number has no effect of it
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
    """Map a value to 0 to 1 between the bounds, on a logarithmic scale."""
    return math.log(value / coefficient.lower) / math.log(coefficient.upper / coefficient.lower)


def from_unit(coefficient: Coefficient, place: float) -> float:
    """Return the value at a place of `to_unit`."""
    return float(coefficient.lower * (coefficient.upper / coefficient.lower) ** place)
