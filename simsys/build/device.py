"""From the description of a GPU to a `DeviceSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from simsys.config.hardware_schema import GpuProfile, Host
from simsys.config.kernel_schema import CurvePoint
from simsys.model.precision import half_of
from simsys.platform.device_spec import DeviceSpec, EfficiencyCurve

Value = TypeVar("Value")

LIKE = {"grouped_gemm": "gemm", "norm": "memory", "activation": "memory", "update": "memory", "buffers": "memory"}
"""Kinds of kernels that a profile may leave out, and the kinds that they equal then."""


def build_device_spec(gpu: GpuProfile) -> DeviceSpec:
    """Turn a GPU profile into plain data in SI units; an unknown price is 0."""
    kinds = type(gpu.efficiency).model_fields
    half = half_of(gpu.peak)
    curves = {
        kind: {str(dtype): _curve(points) for dtype, points in (getattr(gpu.efficiency, kind) or {}).items()}
        for kind in kinds
    }
    for kind, usual in LIKE.items():
        curves[kind] = curves[usual] | curves[kind]
    return DeviceSpec(
        name=gpu.name,
        peak_flop_per_s=_with_kinds({dtype: peak.dense for dtype, peak in gpu.peak.items()}, half),
        memory_bytes=gpu.memory - (gpu.memory_reserved or 0.0),
        memory_bytes_per_s=gpu.memory_bandwidth,
        link_bytes_per_s=gpu.link.bandwidth,
        link_latency_s=gpu.link.latency,
        pcie_bytes_per_s=gpu.memory_bandwidth if gpu.pcie is None else gpu.pcie.bandwidth,
        pcie_latency_s=0.0 if gpu.pcie is None else gpu.pcie.latency,
        tdp_watt=gpu.tdp or 0.0,
        usd_per_hour=gpu.price.usd_per_hour if gpu.price else 0.0,
        curves={kind: _with_kinds(by, half) for kind, by in curves.items() if by},
        floor_s={str(kind): _with_kinds(by, half) for kind, by in gpu.kernel_floor.items()},
        host_update_bytes_per_s=host_update_rate(gpu.host) if gpu.host else 0.0,
        host_speed=(gpu.host and gpu.host.core_speed) or 1.0,
        kernel_gap=gpu.kernel_gap or 1.0,
        matrix_unit=gpu.matrix_unit or 0,
    )


def host_update_rate(host: Host, gpus: int = 1) -> float:
    """Bytes/s that an optimizer on the host reads and writes, for each of the GPUs that share the host."""
    return host.memory_bandwidth * host.optimizer_efficiency / gpus


def _with_kinds(by_dtype: Mapping[Any, Value], half: str) -> dict[str, Value]:
    """Add the entries of specialised kernels, which default to the entries of other kernels.

    Kernels of fp8 with a scale for each block default to plain fp8. Kernels of weights that are only stored in fewer
    bits default to the 16 bit of their computation.
    """
    found = {str(dtype): value for dtype, value in by_dtype.items()}
    alike = {"fp8_block": "fp8", "weight_only": half}
    return {name: found[other] for name, other in alike.items() if other in found} | found


def _curve(points: tuple[CurvePoint, ...]) -> EfficiencyCurve:
    return EfficiencyCurve(
        rows=tuple(float(point.rows) for point in points),
        compute=tuple(point.compute for point in points),
        memory=tuple(point.memory for point in points),
    )
