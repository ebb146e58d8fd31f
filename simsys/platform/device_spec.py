"""Capabilities of a device, and the duration of kernels: a roofline with efficiencies.

The duration of a kernel is the larger of compute time and memory time (Williams et al. 2009, "Roofline") plus a fixed
time for its start, first loads and end. The efficiencies that scale the two peaks depend on the kind of kernel, its
dtype and, for a GEMM, on the number of rows. All of them are data of the hardware profile.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from simsys.errors import InfeasibleError, UsageError
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel, Work
from simsys.sums import ordered_sum

ALIGNMENT = 8
"""Rows of 16-bit matrices are aligned to 16 bytes only with a multiple of this number of elements."""
UNALIGNED = 0.4
"""Relative speed of a matrix product with unaligned rows: tensor cores are fed by narrower loads (NVIDIA, "Matrix
Multiplication Background User's Guide", on tensor core requirements). Set on the vocabulary of 50,257 tokens in
vTrain's measurements on A100: 80 to 90 TFLOP/s."""
UNALIGNED_INNER = 0.1
"""Relative speed if the inputs are unaligned, as in attention with heads of 150: no tensor cores are used. Set
on BigScience's measurements of models of 180 billion parameters on A100, a quarter slower with heads of 108 or 150
than with 128 or 144."""


@dataclass(frozen=True, slots=True)
class EfficiencyCurve:
    """Shares of peak compute and peak bandwidth that kernels reach, by their number of rows.

    Args:
        rows: Rows (tokens, the m of a GEMM) of the measured points, increasing, at least 1.
        compute: Share of peak FLOP/s at each point, above 0 and at most 1.
        memory: Share of peak bytes/s at each point, above 0 and at most 1.

    Raises:
        UsageError: If the three differ in length, are empty, not increasing or out of range.
    """

    rows: tuple[float, ...]
    compute: tuple[float, ...]
    memory: tuple[float, ...]
    _widths: tuple[float, ...] = field(init=False, repr=False, compare=False)  # between points, in log(rows)

    def __post_init__(self) -> None:
        if not self.rows or not len(self.rows) == len(self.compute) == len(self.memory):
            raise UsageError("an efficiency curve needs at least one point, each with rows, compute and memory")
        if not self.rows[0] >= 1 or not all(a < b < math.inf for a, b in zip(self.rows, self.rows[1:], strict=False)):
            raise UsageError(f"the rows of an efficiency curve start at 1 or more and increase, not {self.rows}")
        if not all(0 < share <= 1 for share in (*self.compute, *self.memory)):
            raise UsageError("efficiencies are above 0 and at most 1")
        widths = (math.log(b / a) for a, b in zip(self.rows, self.rows[1:], strict=False))
        object.__setattr__(self, "_widths", tuple(widths))

    @property
    def steady_from(self) -> float:
        """The rows from which on efficiencies are constant; 0 if they are constant everywhere."""
        return self.rows[-1] if len(self.rows) > 1 else 0.0

    def at(self, rows: float) -> tuple[float, float]:
        """Compute and memory efficiency at `rows`: linear in log(rows) between points, constant beyond the ends.

        Example:
            >>> EfficiencyCurve((1, 100), (0.2, 0.8), (0.7, 0.7)).at(10)
            (0.5, 0.7)
        """
        known = self.rows
        right = bisect_right(known, rows)
        if right == 0:
            return self.compute[0], self.memory[0]
        if right == len(known):
            return self.compute[-1], self.memory[-1]
        left = right - 1
        share = math.log(rows / known[left]) / self._widths[left]
        compute, memory = self.compute, self.memory
        return (
            compute[left] + (compute[right] - compute[left]) * share,
            memory[left] + (memory[right] - memory[left]) * share,
        )


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """The specification of one device; plain data, SI units.

    Args:
        name: Name of the hardware profile.
        peak_flop_per_s: Dense peak by dtype; a dtype that is missing cannot be computed in.
        memory_bytes: Device memory.
        memory_bytes_per_s: Peak memory bandwidth.
        link_bytes_per_s: Bandwidth to other GPUs of the node, one direction, nominal.
        link_latency_s: Latency of that link, per hop.
        pcie_bytes_per_s: Bandwidth to the host, one direction.
        pcie_latency_s: Latency to the host.
        tdp_watt: Thermal design power: a cap, not an average.
        usd_per_hour: Price of one device; 0 if unknown.
        curves: Efficiency by kernel kind, then by dtype or ``default``; for products of experts, ``grouped_gemm``, by
            default ``gemm``; for kernels with a role, by role, by default by kind.
        floor_s: Fixed time of a kernel, by kind, then by dtype or ``default``; 0 by default.
        speed: Share of the usual speed at which all kernels run: below 1 for a slow GPU.
        host_update_bytes_per_s: Memory traffic of an optimizer on the host for this device: its share of host memory
            bandwidth times the efficiency of the optimizer; 0 if unknown.
        host_speed: Speed of a host core relative to the hosts of engines' host times.
        kernel_gap: Gaps between kernels of a serving step relative to the device of engines' times per layer.
        matrix_unit: Edge of a systolic array, to whose multiples both sides of stationary tiles are padded; 0 for
            units so small that it does not matter.
    """

    name: str
    peak_flop_per_s: Mapping[str, float] = field(hash=False)
    memory_bytes: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    link_latency_s: float
    pcie_bytes_per_s: float
    pcie_latency_s: float
    tdp_watt: float
    usd_per_hour: float
    curves: Mapping[str, Mapping[str, EfficiencyCurve]] = field(hash=False)
    floor_s: Mapping[str, Mapping[str, float]] = field(hash=False)
    host_update_bytes_per_s: float = 0.0
    host_speed: float = 1.0
    kernel_gap: float = 1.0
    matrix_unit: int = 0
    speed: float = 1.0


def kernel_seconds(spec: DeviceSpec, kernel: Kernel) -> float:
    """The duration of one kernel: ``launches · floor + max(flop / (peak · e_c), bytes / (bandwidth · e_m))``.

    Args:
        spec: The device.
        kernel: The kernel.

    Returns:
        Seconds, without the host's launch overhead.

    Raises:
        InfeasibleError: If the kernel computes in a dtype that the device lacks.
    """
    return max(kernel_bounds(spec, kernel))


def kernel_bounds(spec: DeviceSpec, kernel: Kernel) -> tuple[float, float]:
    """The two least times of a kernel, by its bytes and by its FLOP, each linear in these.

    Raises:
        InfeasibleError: As `kernel_seconds`.
    """
    aligned = alignment(kernel.columns, kernel.inner, spec.matrix_unit)
    rates = KernelRates(spec, kernel.kind, kernel.dtype, aligned, kernel.grouped, kernel.role)
    return rates.bounds(kernel.flop * kernel.effort, kernel.nbytes, kernel.rows, kernel.launches)


class KernelRates:
    """The speed of a device for kernels that differ only in their amounts.

    Args:
        spec: The device.
        kind: Of the kernels.
        dtype: In which they compute.
        alignment: The share of the speed that their alignment leaves.
        grouped: Whether each is many small GEMMs at once.
        role: As `Kernel.role`.
    """

    __slots__ = (
        "_alignment",
        "_bytes_per_s",
        "_curve",
        "_dtype",
        "_fixed_s",
        "_peak",
        "_reached",
        "_rows",
        "_spec",
        "_speed",
        "_steady",
        "_steady_from",
    )

    def __init__(
        self, spec: DeviceSpec, kind: OperatorKind, dtype: str, alignment: float, grouped: bool, role: str = ""
    ) -> None:
        floors_s = spec.floor_s.get(kind.value)
        self._spec, self._dtype = spec, dtype
        own = role if role in spec.curves else "grouped_gemm" if grouped else kind.value
        self._curve = _curve(spec, own, dtype)
        self._peak = spec.peak_flop_per_s.get(dtype)
        self._speed, self._bytes_per_s = spec.speed, spec.memory_bytes_per_s
        self._fixed_s = 0.0 if floors_s is None else floors_s.get(dtype, floors_s["default"]) / spec.speed
        self._alignment = alignment
        self._steady_from = self._curve.steady_from
        self._steady = self._reached = self._reach(self._steady_from)
        self._rows = self._steady_from

    @property
    def computes(self) -> bool:
        """Whether the device has arithmetic in this dtype."""
        return self._peak is not None

    def reach(self, rows: float) -> tuple[float, float, float]:
        """Costs of kernels with a number of rows: fixed seconds, seconds per byte and per FLOP."""
        if rows >= self._steady_from:
            return self._steady
        if self._rows != rows:
            self._rows, self._reached = rows, self._reach(rows)
        return self._reached

    def _reach(self, rows: float) -> tuple[float, float, float]:
        (compute, memory), speed = self._curve.at(rows), self._speed
        flop_s = 1.0 / (self._peak * (compute * self._alignment) * speed) if self._peak is not None else 0.0
        return self._fixed_s, 1.0 / (self._bytes_per_s * memory * speed), flop_s

    def refusal(self) -> InfeasibleError:
        """Why a kernel with FLOP in a dtype that the device lacks is refused."""
        has = ", ".join(self._spec.peak_flop_per_s)
        return InfeasibleError(f"{self._spec.name} has no {self._dtype} arithmetic; it has {has}", "hardware")

    def bounds(self, flop: float, nbytes: float, rows: float, launches: float = 1.0) -> tuple[float, float]:
        """The two least times of a kernel, by its bytes and by its FLOP.

        Raises:
            InfeasibleError: As `kernel_seconds`.
        """
        if flop and self._peak is None:
            raise self.refusal()
        floor_s, byte_s, flop_s = self.reach(rows)
        floor_s *= launches
        return floor_s + nbytes * byte_s, floor_s + flop * flop_s


def _curve(spec: DeviceSpec, kind: str, dtype: str) -> EfficiencyCurve:
    curves = spec.curves.get(kind, spec.curves["gemm"])
    return curves.get(dtype) or curves["default"]


def alignment(columns: int, inner: int, unit: int = 0) -> float:
    """The share of the speed of a matrix product that the alignment of its rows leaves.

    A systolic array holds a tile of k x n weights, padded to its edges, while rows stream through it. In attention,
    the head size is an edge of both products.

    Args:
        columns: Columns n.
        inner: Inner dimension k.
        unit: Edge of a systolic array; 0 without one.

    Example:
        >>> alignment(4096, 4096, 256), alignment(0, 64, 256), alignment(384, 256, 256)
        (1.0, 0.25, 0.75)
    """
    if unit:
        return _filled(columns, unit) * _filled(inner, unit)
    if _unaligned(inner):
        return UNALIGNED_INNER
    return UNALIGNED if _unaligned(columns) else 1.0


def _filled(elements: int, unit: int) -> float:
    """The share of a systolic array that a side of a tile fills."""
    return elements / (-(-elements // unit) * unit) if elements else 1.0


def _unaligned(elements: int) -> bool:
    """True if rows of this number of elements are unaligned; few rows of a narrow matrix are only read."""
    return elements > ALIGNMENT and elements % ALIGNMENT > 0


def work_seconds(spec: DeviceSpec, work: Work, overhead_per_layer_s: float = 0.0) -> float:
    """The duration of consecutive kernels, if the host launches them in time.

    Args:
        spec: The device.
        work: Kernels, and the number of layers for overheads.
        overhead_per_layer_s: Gaps between the kernels of a layer, per pass.

    Returns:
        ``host + layers · overhead + Σ kernel_seconds``.
    """
    kernels_s = ordered_sum(kernel_seconds(spec, kernel) for kernel in work.kernels)
    return work.host_s + work.layers * overhead_per_layer_s + kernels_s
