"""Measured kernels, and the efficiencies of a GPU that fit them: matrix products and decode attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.config.hardware import Named, load_gpu
from simsys.errors import UsageError
from simsys.fidelity.tables.facts import facts
from simsys.fidelity.tables.hardware_names import Machines
from simsys.fidelity.tables.table import Row, Table
from simsys.fidelity.tables.words import kernel_words
from simsys.units import Dimension, format_quantity

Vector: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

GEMM_COLUMNS = ("system", "gemm_dtype", "shape", "m", "n", "k", "latency_us")
ATTENTION_COLUMNS = ("system", "kv_cache_dtype", "batch_size", "step", "latency_us")
ROWS = (64, 128, 256, 512, 1024, 2048, 8192)
"""Points of a fitted curve: rows of a matrix product."""
KV_HEADS, HEAD_SIZE = 8, 128
"""Of the attention in such tables."""
OUTLIER = 0.1
"""Logarithmic error beyond which a kernel counts less and less."""
FEWEST = 20
"""Kernels, for a curve."""
WORST = 0.2
"""Mean error on unseen kernels from which a fit is given up: these kernels follow another law."""
SMOOTH = 0.05
"""How strongly neighbouring points of a curve are held together, for those that few kernels tell."""
SHORT_CONTEXT = 128
"""Cached tokens of a sequence below which kernels read more than they need; such kernels are left out."""


@dataclass(frozen=True)
class KernelFit:
    """What was fitted to the kernels of one GPU and dtype.

    Args:
        gpu: The GPU's profile.
        kind: ``gemm`` or ``decode_attention``.
        dtype: As in profiles.
        floor_s: What a kernel takes beside computing and reading.
        points: Of the curve: rows, share of peak compute, share of peak bandwidth.
        kernels: How many were fitted.
        error: Mean relative error.
        error_unseen: The same on shapes, or batch sizes, that a fit had not seen.
    """

    gpu: str
    kind: str
    dtype: str
    floor_s: float
    points: Sequence[Mapping[str, float]]
    kernels: int
    error: float
    error_unseen: float


def overlay_of(fits: Sequence[KernelFit]) -> dict[Named, dict[str, Any]]:
    """The fits as settings of GPU profiles, for `simsys.config.hardware.overlaid`."""
    found: dict[Named, dict[str, Any]] = {}
    for fit in sorted(fits, key=lambda fit: fit.dtype not in ("bf16", "fp16")):  # 16 bit speaks for other dtypes
        own = found.setdefault(("gpu", fit.gpu), {"efficiency": {}, "kernel_floor": {}})
        first = fit.kind not in own["efficiency"]
        floor = format_quantity(round(fit.floor_s, 8), Dimension.SECONDS)
        for name in ("default", fit.dtype) if first else (fit.dtype,):
            own["efficiency"].setdefault(fit.kind, {})[name] = list(fit.points)
            own["kernel_floor"].setdefault(fit.kind, {})[name] = floor
    return found


def provenance(fits: Sequence[KernelFit], tables: Sequence[str], command: str, as_of: date) -> dict[str, Any]:
    """What the fits of one GPU say of themselves in its profile: ``sources`` and ``fits``."""
    said = f"fitted to kernels of {', '.join(tables)} ({as_of}), {command}"
    return {
        "sources": {**{f"efficiency.{fit.kind}": said for fit in fits}, "kernel_floor": said},
        "fits": {
            f"efficiency.{fit.kind}.{fit.dtype}": {
                "fitted_on": f"{fit.kernels} kernels",
                "error": round(fit.error_unseen, 4),
                "error_of_fit": round(fit.error, 4),
                "command": command,
                "as_of": str(as_of),
            }
            for fit in fits
        },
    }


def is_kernel_table(table: Table) -> bool:
    """Whether it holds measured kernels, not runs."""
    return any(
        len(set(columns) & set(table.columns)) > len(columns) // 2 and columns[1] in table.columns
        for columns in (GEMM_COLUMNS, ATTENTION_COLUMNS)
    )


def fit_kernels(table: Table) -> list[KernelFit]:
    """Fit every GPU and dtype of a table of kernels.

    Raises:
        UsageError: If SciPy is not installed, or nothing has enough kernels.
        ConfigError: With all problems of the cells.
    """
    gemm = "gemm_dtype" in table.columns
    table.require(GEMM_COLUMNS if gemm else ATTENTION_COLUMNS)
    groups: dict[tuple[str, str], list[Row]] = {}
    systems = facts(Machines).kernel_systems
    for row in table.rows:
        dtype = kernel_words().dtypes.get(row.text("gemm_dtype" if gemm else "kv_cache_dtype"))
        if dtype is not None:
            groups.setdefault((systems.get(row.text("system"), row.text("system")), dtype), []).append(row)
    fit = _fit_gemm if gemm else _fit_attention
    columns = GEMM_COLUMNS[3:6] if gemm else ATTENTION_COLUMNS[2:4]
    groups = {key: _middle(rows, columns) for key, rows in groups.items()}
    found = [fit(gpu, dtype, rows) for (gpu, dtype), rows in groups.items() if len(rows) >= FEWEST]
    table.check()
    found = [each for each in found if each.error_unseen < WORST]
    if not found:
        raise UsageError(f"{table.file}: no GPU and dtype has {FEWEST} kernels or more that a fit describes")
    return found


def _middle(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Of the kernels that frameworks have for the same work, the middle one, or the faster of two.

    One that lacks a good kernel for a dtype is slower several times over, whatever the shape.
    """
    found: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.number(column) for column in columns), []).append(row)
    by_time = (sorted(same, key=lambda row: row.number("latency_us")) for same in found.values())
    return [same[(len(same) - 1) // 2] for same in by_time]


def _fit_gemm(gpu: str, dtype: str, rows: Sequence[Row]) -> KernelFit:
    """The floor, one share of the bandwidth, and a share of the peak at every point."""
    m, n, k = (np.array([row.number(name) for row in rows]) for name in "mnk")
    measured_s = np.array([row.number("latency_us") for row in rows]) * 1e-6
    profile = load_gpu(gpu)
    compute_s = 2.0 * m * n * k / _peak(profile.peak, dtype, gpu)
    weight_bytes = kernel_words().bytes_per_element[dtype]
    activation_bytes = min(weight_bytes, 2.0)
    memory_s = (n * k * weight_bytes + m * k * activation_bytes + m * n * 2.0) / profile.memory_bandwidth
    places = np.log(m)

    def predicted(x: Vector, which: Places) -> Vector:
        shares = _share(np.interp(places[which], np.log(ROWS), x[2:]))
        roof: Vector = np.maximum(compute_s[which] / shares, memory_s[which] / _share(x[1]))
        times: Vector = np.exp(x[0]) + roof
        return times

    start = np.array([np.log(4e-6), 1.2, *[0.8] * len(ROWS)])
    x, error, unseen = _fitted(predicted, measured_s, start, [row.text("shape") for row in rows])
    memory = float(_share(x[1]))
    points = [
        {"rows": rows_, "compute": round(float(_share(place)), 3), "memory": round(memory, 3)}
        for rows_, place in zip(ROWS, x[2:], strict=True)
    ]
    return KernelFit(gpu, "gemm", dtype, float(np.exp(x[0])), points, len(rows), error, unseen)


def _fit_attention(gpu: str, dtype: str, rows: Sequence[Row]) -> KernelFit:
    """The floor and the share of the bandwidth at which keys and values are read."""
    rows = [row for row in rows if row.number("step") >= SHORT_CONTEXT]
    batch, context = (np.array([row.number(name) for row in rows]) for name in ("batch_size", "step"))
    measured_s = np.array([row.number("latency_us") for row in rows]) * 1e-6
    nbytes = 2.0 * KV_HEADS * HEAD_SIZE * kernel_words().bytes_per_element[dtype] * batch * context
    memory_s = nbytes / load_gpu(gpu).memory_bandwidth

    def predicted(x: Vector, which: Places) -> Vector:
        times: Vector = np.exp(x[0]) + memory_s[which] / _share(x[1])
        return times

    start = np.array([np.log(1e-5), 1.2])
    x, error, unseen = _fitted(predicted, measured_s, start, [row.text("batch_size") for row in rows])
    points = [{"rows": 1, "compute": 0.5, "memory": round(float(_share(x[1])), 3)}]
    return KernelFit(gpu, "decode_attention", dtype, float(np.exp(x[0])), points, len(rows), error, unseen)


def _fitted(
    predicted: Callable[[Vector, Places], Vector], measured_s: Vector, start: Vector, folds: Sequence[str]
) -> tuple[Vector, float, float]:
    """The best parameters, the mean error with them, and that of each fold with those of the others."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise UsageError("fitting needs SciPy: pip install 'simsys[calibrate]'") from None

    def best(which: Places) -> Vector:
        def residuals(x: Vector) -> Vector:
            return np.concatenate([np.log(predicted(x, which) / measured_s[which]), SMOOTH * np.diff(x[2:])])

        found: Vector = least_squares(residuals, start, loss="soft_l1", f_scale=OUTLIER).x
        return found

    def errors(x: Vector, which: Places) -> Vector:
        return np.abs(predicted(x, which) / measured_s[which] - 1.0)

    everything = np.arange(len(measured_s))
    names = np.array(folds)
    x = best(everything)
    unseen = [
        errors(best(np.flatnonzero(names != fold)), np.flatnonzero(names == fold)) for fold in sorted(set(folds))
    ]
    return x, float(np.mean(errors(x, everything))), float(np.mean(np.concatenate(unseen)))


def _share(place: Any) -> Any:
    """A share between nothing and one, as a function without bounds."""
    return 1.0 / (1.0 + np.exp(-place))


def _peak(peaks: Mapping[Any, Any], dtype: str, gpu: str) -> float:
    dtype = "fp8" if dtype == "fp8_block" else dtype
    if dtype not in peaks:
        raise UsageError(f"{gpu} has no {dtype} arithmetic, but there are kernels in it")
    return float(peaks[dtype].dense)
