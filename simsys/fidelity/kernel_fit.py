"""Efficiencies of a GPU, fitted to measured kernels: matrix products and decode attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.config.hardware import Named, inherited, load_gpu
from simsys.errors import UsageError
from simsys.fidelity.tables.kernel_rows import FEWEST, MeasuredKernels, Vector, measured_kernels
from simsys.fidelity.tables.table import Table
from simsys.fidelity.tables.words import kernel_words
from simsys.units import Dimension, format_quantity

Places: TypeAlias = NDArray[np.intp]

ROWS = (64, 128, 256, 512, 1024, 2048, 8192)
"""Points of a fitted curve: rows of the matrix product."""
OUTLIER = 0.1
"""Logarithmic error above which the weight of a kernel decreases (soft L1 loss)."""
WORST = 0.2
"""Mean error on held-out kernels from which a fit is discarded: these kernels follow another law."""
SMOOTH = 0.05
"""Regularisation of the difference of neighbouring points, for points that few kernels determine."""


@dataclass(frozen=True)
class KernelFit:
    """The fit to the kernels of one GPU and dtype.

    Args:
        gpu: The GPU's profile.
        kind: ``gemm`` or ``decode_attention``.
        dtype: As in profiles.
        floor_s: Fixed time of a kernel.
        points: Points of the curve: rows, share of peak compute, share of peak bandwidth.
        kernels: Number of fitted kernels.
        error: Mean relative error.
        error_unseen: Mean relative error on held-out shapes or batch sizes.
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
    """Return the fits as settings of GPU profiles, for `simsys.config.hardware.overlaid`."""
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
    """Return the provenance of the fits of one GPU in its profile: ``sources`` and ``fits``."""
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


def fit_kernels(table: Table) -> list[KernelFit]:
    """Fit every GPU and dtype of a table of kernels.

    A GPU whose profile extends that of another GPU of the table, which is the same chip, has the fits of that one.
    Runs correct these: a server's kernels differ from single ones.

    Raises:
        UsageError: If SciPy is not installed, or no GPU and dtype has enough kernels that a fit describes.
        ConfigError: With all problems of the cells.
    """
    fits = [_fit_gemm(each) if each.kind == "gemm" else _fit_attention(each) for each in measured_kernels(table)]
    found = [fit for fit in fits if fit.error_unseen < WORST]
    if not found:
        raise UsageError(f"{table.file}: no GPU and dtype has {FEWEST} kernels or more that a fit describes")
    fitted = {(fit.gpu, fit.kind, fit.dtype) for fit in found}
    return [fit for fit in found if not any((gpu, fit.kind, fit.dtype) in fitted for gpu in _extended(fit.gpu))]


def _extended(gpu: str) -> Iterator[str]:
    """Yield the GPUs whose profiles that of a GPU extends, the nearest first."""
    while gpu := inherited("gpu", gpu)[0]:
        yield gpu


def _fit_gemm(kernels: MeasuredKernels) -> KernelFit:
    """Fit the floor, one share of the bandwidth, and a share of the peak at every point."""
    profile = load_gpu(kernels.gpu)
    weight_bytes = kernel_words().bytes_per_element[kernels.dtype]
    nbytes = (weight_bytes, min(weight_bytes, 2.0), 2.0)
    return fit_gemm(kernels, _peak(profile.peak, kernels.dtype, kernels.gpu), profile.memory_bandwidth, nbytes)


def fit_gemm(
    kernels: MeasuredKernels, peak_flop_per_s: float, memory_bytes_per_s: float, nbytes: tuple[float, float, float]
) -> KernelFit:
    """Fit measured matrix products of one device and dtype.

    Args:
        kernels: The products.
        peak_flop_per_s: Peak of the device in the dtype.
        memory_bytes_per_s: Bandwidth of its memory.
        nbytes: Bytes of an element of weights, inputs and outputs.

    Raises:
        UsageError: If SciPy is not installed.
    """
    m, n, k = (kernels.sizes[name] for name in "mnk")
    compute_s = 2.0 * m * n * k / peak_flop_per_s
    memory_s = (n * k * nbytes[0] + m * k * nbytes[1] + m * n * nbytes[2]) / memory_bytes_per_s
    places = np.log(m)

    def predicted(x: Vector, which: Places) -> Vector:
        shares = _share(np.interp(places[which], np.log(ROWS), x[2:]))
        roof: Vector = np.maximum(compute_s[which] / shares, memory_s[which] / _share(x[1]))
        times: Vector = np.exp(x[0]) + roof
        return times

    x, error, unseen = _fitted(predicted, kernels, np.array([np.log(4e-6), 1.2, *[0.8] * len(ROWS)]))
    memory = float(_share(x[1]))
    points = [
        {"rows": rows, "compute": round(float(_share(place)), 3), "memory": round(memory, 3)}
        for rows, place in zip(ROWS, x[2:], strict=True)
    ]
    count = len(kernels.measured_s)
    return KernelFit(kernels.gpu, kernels.kind, kernels.dtype, float(np.exp(x[0])), points, count, error, unseen)


def _fit_attention(kernels: MeasuredKernels) -> KernelFit:
    """Fit the floor and the share of the bandwidth at which keys and values are read."""
    memory_s = kernels.kv_bytes / load_gpu(kernels.gpu).memory_bandwidth

    def predicted(x: Vector, which: Places) -> Vector:
        times: Vector = np.exp(x[0]) + memory_s[which] / _share(x[1])
        return times

    x, error, unseen = _fitted(predicted, kernels, np.array([np.log(1e-5), 1.2]))
    points = [{"rows": 1, "compute": 0.5, "memory": round(float(_share(x[1])), 3)}]
    count = len(kernels.measured_s)
    return KernelFit(kernels.gpu, kernels.kind, kernels.dtype, float(np.exp(x[0])), points, count, error, unseen)


def _fitted(
    predicted: Callable[[Vector, Places], Vector], kernels: MeasuredKernels, start: Vector
) -> tuple[Vector, float, float]:
    """Return the best parameters, the mean error with them, and the mean error of held-out folds."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise UsageError("fitting needs SciPy: pip install 'simsys[calibrate]'") from None

    measured_s, folds = kernels.measured_s, kernels.folds

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
    """Map a number without bounds to a share between 0 and 1 (logistic function)."""
    return 1.0 / (1.0 + np.exp(-place))


def _peak(peaks: Mapping[Any, Any], dtype: str, gpu: str) -> float:
    dtype = "fp8" if dtype == "fp8_block" else dtype
    if dtype not in peaks:
        raise UsageError(f"{gpu} has no {dtype} arithmetic, but there are kernels in it")
    return float(peaks[dtype].dense)
