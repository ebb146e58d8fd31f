"""From the description of a GPU to the device that runs: the one place that knows both sides."""

from __future__ import annotations

from simsys.config.hardware_schema import CurvePoint, GpuProfile, Host
from simsys.platform.device_spec import DeviceSpec, EfficiencyCurve


def build_device_spec(gpu: GpuProfile) -> DeviceSpec:
    """Turn a GPU profile into plain data in SI units; a price that is not known is 0."""
    kinds = type(gpu.efficiency).model_fields
    curves = {
        kind: {dtype: _curve(points) for dtype, points in getattr(gpu.efficiency, kind).items()} for kind in kinds
    }
    return DeviceSpec(
        name=gpu.name,
        peak_flop_per_s={dtype: peak.dense for dtype, peak in gpu.peak.items()},
        memory_bytes=gpu.memory - (gpu.memory_reserved or 0.0),
        memory_bytes_per_s=gpu.memory_bandwidth,
        link_bytes_per_s=gpu.link.bandwidth,
        link_latency_s=gpu.link.latency,
        pcie_bytes_per_s=gpu.pcie.bandwidth,
        pcie_latency_s=gpu.pcie.latency,
        tdp_watt=gpu.tdp,
        usd_per_hour=gpu.price.usd_per_hour if gpu.price else 0.0,
        curves=curves,
        floor_s={str(kind): {str(dtype): s for dtype, s in by.items()} for kind, by in gpu.kernel_floor.items()},
        host_update_bytes_per_s=host_update_rate(gpu.host) if gpu.host else 0.0,
        grouped_gemm=gpu.grouped_gemm or 1.0,
        host_speed=(gpu.host and gpu.host.core_speed) or 1.0,
    )


def host_update_rate(host: Host, gpus: int = 1) -> float:
    """Bytes/s that an optimizer on the host reads and writes for each of the GPUs that share it."""
    return host.memory_bandwidth * host.optimizer_efficiency / gpus


def _curve(points: tuple[CurvePoint, ...]) -> EfficiencyCurve:
    return EfficiencyCurve(
        rows=tuple(float(point.rows) for point in points),
        compute=tuple(point.compute for point in points),
        memory=tuple(point.memory for point in points),
    )
