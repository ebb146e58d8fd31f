"""From measurements to the profiles of a device, a node and an engine, each number with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from simsys.collectives import CollectiveKind
from simsys.collectives.choose import algorithm_of
from simsys.fidelity.kernel_fit import KernelFit, fit_gemm
from simsys.fidelity.tables.kernel_rows import MeasuredKernels
from simsys.lab.measure.shapes import LARGE_BYTES, MEDIUM_BYTES, WEIGHTS, Shapes
from simsys.sums import ordered_sum

ELEMENT_BYTES = {"fp32": 4.0, "bf16": 2.0}
UPDATE_BYTES = 28.0
"""Bytes that AdamW reads and writes for each weight, as `simsys.parallel.optimizer` counts."""
BOTH_PASSES = 3.0
"""Element-wise work of both passes over that of the forward pass, as the simulator counts."""
ATTENTION_PASSES = 3.5
"""FLOP of both passes of attention over those of the forward pass: the backward pass computes scores again."""
CAST_BYTES = 6.0
"""Bytes to read a weight in 32 bit and write it in 16, or its gradient the other way."""
UTILIZATION = 0.95
PEAK_MARGIN = 1.02
"""Peak over the rate of the fastest measured product, so that shares stay below 1."""


@dataclass(frozen=True)
class Measured:
    """Everything measured on a machine.

    Args:
        name: Name of the profiles.
        device: What one rank measured alone.
        exchanges: What all ranks measured together; None on a machine for one rank.
        shapes: The shapes.
        ranks: Number of ranks of the node.
        threads: Threads of each.
        memory_bytes: Memory of the machine.
        day: The date.
    """

    name: str
    device: Mapping[str, Any]
    exchanges: Mapping[str, Any] | None
    shapes: Shapes
    ranks: int
    threads: int
    memory_bytes: float
    day: date

    @property
    def kernels(self) -> Mapping[str, Any]:
        """Times of kernels."""
        return self.device["kernels"]

    @property
    def on_cpu(self) -> bool:
        """Whether the device is a processor."""
        return self.device["device"] == "cpu"

    @property
    def memory_bytes_per_s(self) -> float:
        """Bandwidth of the memory for one rank: that of the fastest measured kernel."""
        triad = 3 * LARGE_BYTES / self.kernels["triad"]["seconds"]
        return max(triad, UPDATE_BYTES * WEIGHTS / self.kernels["update"]["seconds"], self.rate_of_sums)

    @property
    def rate_of_sums(self) -> float:
        """Bytes/s of a sum into a new buffer."""
        return 3 * MEDIUM_BYTES / self.kernels["sum"]["seconds"]

    def source(self, *timings: Mapping[str, Any]) -> str:
        """The source of numbers, with the spread of their samples."""
        text = f"simsys measure, {self.day}, torch {self.device['torch']}, {self.threads} threads"
        if timings:
            text += f", spread {max(float(each['spread']) for each in timings):.0%}"
        if any(each["disturbed"] for each in timings):
            text += ", disturbed by other programs"
        return text


def profiles(measured: Measured) -> dict[str, dict[str, Any]]:
    """The profiles by path below a folder of profiles, without ``.yaml``."""
    name = measured.name
    return {
        f"gpus/{name}": device_profile(measured),
        f"nodes/{name}": node_profile(measured),
        f"engines/{name}": engine_profile(measured),
    }


def device_profile(measured: Measured) -> dict[str, Any]:
    """The profile of the device of a rank."""
    kernels, bandwidth = measured.kernels, measured.memory_bytes_per_s
    peaks = {dtype: PEAK_MARGIN * _fastest(kernels["gemm"], dtype) for dtype in ELEMENT_BYTES}
    fits = {dtype: _fit(measured, dtype, peak) for dtype, peak in peaks.items()}
    efficiency = _efficiency(measured, peaks, fits)
    return {
        "name": measured.name,
        "vendor": "CPU" if measured.on_cpu else measured.device["name"],
        "peak": {dtype: f"{peak / 1e12:.5g} TFLOP/s" for dtype, peak in peaks.items()},
        "memory": f"{measured.memory_bytes / (measured.ranks if measured.on_cpu else 1) / 2**30:.4g} GiB",
        "memory_bandwidth": f"{bandwidth / 1e9:.4g} GB/s",
        "link": {"kind": "shared_memory" if measured.on_cpu else "pcie", **_link(measured)},
        **({} if measured.on_cpu else _pcie(kernels)),
        "efficiency": efficiency,
        "kernel_floor": {"gemm": {dtype: f"{fit.floor_s * 1e6:.4g} us" for dtype, fit in _with_default(fits).items()}},
        "sources": _device_sources(measured, kernels),
        "fits": {
            f"efficiency.gemm.{dtype}": {
                "fitted_on": f"{fit.kernels} products measured here",
                "error": _share(fit.error_unseen),
                "error_of_fit": _share(fit.error),
                "command": "simsys measure",
                "as_of": str(measured.day),
            }
            for dtype, fit in fits.items()
        },
    }


def _efficiency(measured: Measured, peaks: Mapping[str, float], fits: Mapping[str, KernelFit]) -> dict[str, Any]:
    """Shares of the peaks, by kind and dtype."""
    kernels, bandwidth = measured.kernels, measured.memory_bytes_per_s
    tokens, shapes = measured.shapes.tokens, measured.shapes
    shares = {
        "memory": {"default": min(1.0, measured.rate_of_sums / bandwidth)},
        "update": {"default": UPDATE_BYTES * WEIGHTS / kernels["update"]["seconds"] / bandwidth},
        "buffers": {"default": 2 * MEDIUM_BYTES / kernels["buffers"]["seconds"] / bandwidth},
        "norm": _shares(kernels["norm"], BOTH_PASSES * 4 * shapes.hidden_size * tokens, bandwidth),
        "activation": _shares(
            kernels["activation"],
            BOTH_PASSES * (3 if shapes.gated else 2) * shapes.intermediate_size * tokens,
            bandwidth,
        ),
    }
    pairs = shapes.length * (shapes.length + 1) / 2 if shapes.causal else float(shapes.length**2)
    flop = ATTENTION_PASSES * 4 * shapes.batch_size * shapes.heads * shapes.head_size * pairs
    attention = {dtype: min(1.0, flop / kernels["attention"][dtype]["seconds"] / peaks[dtype]) for dtype in peaks}
    efficiency: dict[str, Any] = {"gemm": {dtype: list(fit.points) for dtype, fit in fits.items()}}
    efficiency["gemm"]["default"] = efficiency["gemm"]["fp32"]
    efficiency["conv"] = {"default": efficiency["gemm"]["fp32"]}
    for kind in ("attention", "decode_attention"):
        points = {dtype: [{"rows": 1, "compute": _share(share), "memory": 1.0}] for dtype, share in attention.items()}
        efficiency[kind] = {**points, "default": points["fp32"]}
    for kind, by_dtype in shares.items():
        efficiency[kind] = {
            dtype: [{"rows": 1, "compute": 1.0, "memory": _share(share)}] for dtype, share in by_dtype.items()
        }
    return efficiency


def node_profile(measured: Measured) -> dict[str, Any]:
    """The profile of the machine: its ranks and the collectives between them."""
    exchanges = measured.exchanges
    interconnect: dict[str, Any] = {"kind": "shared_memory" if measured.on_cpu else "pcie_switch", **_link(measured)}
    made = {"name": measured.name, "gpu": measured.name, "gpus_per_node": measured.ranks, "interconnect": interconnect}
    sources = {
        "gpus_per_node": measured.source(),
        "interconnect": f"a copy in memory; {measured.source(measured.kernels['copy'])}",
    }
    if exchanges is not None:
        links, errors = {}, []
        for kind, rows in exchanges["collectives"].items():
            links[kind], error = collective_link(kind, measured.ranks, rows)
            errors.append(error)
        interconnect["collectives"] = links
        every = [row for rows in exchanges["collectives"].values() for row in rows]
        said = f"{measured.ranks} ranks, mean error of the lines {ordered_sum(errors) / len(errors):.0%}"
        sources["interconnect.collectives"] = f"{measured.source(*every)}; {said}"
        if measured.on_cpu:
            together = measured.ranks * 3 * LARGE_BYTES / exchanges["triad"]["seconds"]
            made["shared_memory_bandwidth"] = f"{together / 1e9:.4g} GB/s"
            sources["shared_memory_bandwidth"] = f"all ranks at once; {measured.source(exchanges['triad'])}"
    return {**made, "sources": sources}


def engine_profile(measured: Measured) -> dict[str, Any]:
    """The profile of PyTorch on this machine."""
    found, loss = measured.device["overheads"], measured.kernels["loss"]
    tokens = min(measured.shapes.tokens, 4096)
    per_logit = loss["seconds"] * measured.rate_of_sums / (tokens * measured.shapes.vocab_size)
    numbers = {
        "per_layer": f"{found['per_layer_s'] * 1e6:.4g} us",
        "per_step": f"{found['per_step_s'] * 1e6:.4g} us",
        "per_sequence": "0 s",
        "per_request": "0 s",
        "gpu_memory_utilization": UTILIZATION,
        "memory_context": f"{found['context_bytes'] / 2**20:.4g} MiB",
        "backward_per_layer_factor": round(min(100.0, found["backward_factor"]), 3),
        "loss_bytes_per_logit": round(min(1000.0, per_logit), 2),
        "cast_bytes_per_weight": CAST_BYTES,
    }
    sources = {key: measured.source() for key in numbers}
    sources["gpu_memory_utilization"] = "assumed"
    sources["cast_bytes_per_weight"] = "counted: 4 bytes and 2 bytes of each weight"
    sources["per_sequence"] = sources["per_request"] = "not measured: training"
    sources["loss_bytes_per_logit"] = measured.source(loss)
    if measured.exchanges is not None:
        numbers["communication_share"] = round(measured.exchanges["share"], 3)
        sources["communication_share"] = f"products beside an all-reduce; {measured.source()}"
    return {"name": measured.name, **numbers, "sources": sources}


def collective_link(kind: str, ranks: int, rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], float]:
    """Latency and bandwidth of a step of a collective, and the mean relative error of its times.

    The time is a line in the bytes, whose relative errors are least in squares.
    """
    phases = algorithm_of(CollectiveKind(kind)).phases(CollectiveKind(kind), ranks)
    steps = sum(phase.repeat for phase in phases)
    fraction = ordered_sum(phase.repeat * phase.fraction for phase in phases)
    nbytes = np.array([float(row["nbytes"]) for row in rows])
    seconds = np.array([float(row["seconds"]) for row in rows])
    terms = np.stack([np.full_like(nbytes, steps), fraction * nbytes], axis=1)
    latency_s, byte_s = np.linalg.lstsq(terms / seconds[:, None], np.ones_like(seconds), rcond=None)[0]
    if latency_s < 0.0:
        latency_s, byte_s = 0.0, float(np.median(seconds / (fraction * nbytes)))
    predicted = terms @ np.array([latency_s, byte_s])
    error = float(np.mean(np.abs(predicted / seconds - 1.0)))
    return {"bandwidth": f"{1e-9 / byte_s:.4g} GB/s", "latency": f"{latency_s * 1e6:.4g} us"}, error


def _fit(measured: Measured, dtype: str, peak: float) -> KernelFit:
    rows = [row for row in measured.kernels["gemm"] if row["dtype"] == dtype]
    sizes = {name: np.array([float(row[name]) for row in rows]) for name in "mnk"}
    seconds = np.array([float(row["seconds"]) for row in rows])
    folds = [f"{row['n']}x{row['k']}" for row in rows]
    nbytes = (ELEMENT_BYTES[dtype],) * 3
    made = MeasuredKernels(measured.name, "gemm", dtype, sizes, seconds, folds)
    return fit_gemm(made, peak, measured.memory_bytes_per_s, nbytes)


def _fastest(rows: Sequence[Mapping[str, Any]], dtype: str) -> float:
    return max(2.0 * row["m"] * row["n"] * row["k"] / row["seconds"] for row in rows if row["dtype"] == dtype)


def _shares(timings: Mapping[str, Mapping[str, Any]], elements: float, bandwidth: float) -> dict[str, float]:
    """Share of the bandwidth by dtype, of kernels that move these elements as the simulator counts."""
    found = {
        dtype: elements * ELEMENT_BYTES[dtype] / timing["seconds"] / bandwidth for dtype, timing in timings.items()
    }
    return {**found, "default": found["fp32"]}


def _share(value: float) -> float:
    return round(min(1.0, max(1e-4, value)), 4)


def _with_default(fits: Mapping[str, KernelFit]) -> dict[str, KernelFit]:
    return {**fits, "default": fits["fp32"]}


def _link(measured: Measured) -> dict[str, str]:
    """Between ranks: a copy in memory; collectives may cost more."""
    rate = 2 * LARGE_BYTES / measured.kernels["copy"]["seconds"]
    return {"bandwidth": f"{rate / 1e9:.4g} GB/s", "latency": "0 s"}


def _pcie(kernels: Mapping[str, Any]) -> dict[str, Any]:
    rate = LARGE_BYTES / kernels["to_device"]["seconds"]
    return {"pcie": {"bandwidth": f"{rate / 1e9:.4g} GB/s", "latency": f"{kernels['launch']['seconds'] * 1e6:.3g} us"}}


def _device_sources(measured: Measured, kernels: Mapping[str, Any]) -> dict[str, str]:
    gemm = measured.source(*kernels["gemm"])
    own = {
        f"efficiency.{kind}": measured.source(*kernels[kind].values()) for kind in ("attention", "norm", "activation")
    }
    return {
        "peak": f"{gemm}; the fastest product",
        "memory": measured.source(),
        "memory_bandwidth": measured.source(kernels["triad"], kernels["update"]),
        "link": measured.source(kernels["copy"]),
        **({} if measured.on_cpu else {"pcie": measured.source(kernels["to_device"])}),
        "efficiency": f"{gemm}; conv and decode_attention assumed like gemm and attention",
        **own,
        "efficiency.update": measured.source(kernels["update"]),
        "efficiency.buffers": measured.source(kernels["buffers"]),
        "efficiency.memory": measured.source(kernels["sum"]),
        "kernel_floor": gemm,
    }
