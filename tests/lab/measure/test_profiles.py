"""Fits of measured collectives, and profiles that load as they were meant."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from simsys.collectives import CollectiveKind
from simsys.config.hardware import load_engine, load_gpu, load_node
from simsys.lab.measure.profiles import Measured, collective_link, profiles
from simsys.lab.measure.run import _write
from simsys.lab.measure.shapes import LARGE_BYTES, ROWS, Shapes

SIZES = (2**12, 2**16, 2**20, 2**24)
SHAPES = Shapes()


def timing(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "spread": 0.02, "disturbed": False, "preempted": 0, "samples_s": [seconds]}


def machine(ranks: int = 2) -> Measured:
    """An invented machine: 100 GFLOP/s, 50 GB/s, a tenth of it for activations."""
    gemm = [
        {"dtype": dtype, "m": m, "n": n, "k": k, **timing(2e-6 + 2.0 * m * n * k / rate)}
        for dtype, rate in (("fp32", 1e11), ("bf16", 4e11))
        for k, n in SHAPES.products
        for m in ROWS
    ]
    elements = SHAPES.tokens * SHAPES.hidden_size
    kernels = {
        "gemm": gemm,
        "triad": timing(3 * LARGE_BYTES / 5e10),
        "copy": timing(2 * LARGE_BYTES / 4e10),
        "sum": timing(3 * 2**24 / 4e10),
        "buffers": timing(2 * 2**24 / 2e10),
        "update": timing(28 * 2**23 / 4.5e10),
        "launch": timing(2e-6),
        "loss": timing(0.01),
        "attention": {"fp32": timing(0.01), "bf16": timing(0.01)},
        "norm": {"fp32": timing(3 * 4 * 4 * elements / 2.5e10), "bf16": timing(1e-3)},
        "activation": {"fp32": timing(3 * 2 * 4 * 4 * elements / 5e9), "bf16": timing(1e-2)},
    }
    over = {"per_layer_s": 1e-4, "backward_factor": 1.5, "per_step_s": 1e-3, "context_bytes": 3e8}
    rows = [{"nbytes": size, **timing(1e-4 + size / 1e9)} for size in SIZES]
    exchanges = {
        "collectives": dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), rows),
        "triad": timing(3 * LARGE_BYTES / 3e10),
        "share": 0.9,
    }
    device = {"torch": "2.13.0", "device": "cpu", "name": "", "kernels": kernels, "overheads": over}
    return Measured("mine", device, exchanges if ranks > 1 else None, SHAPES, ranks, 1, 16e9, date(2026, 11, 25))


@pytest.mark.parametrize(("kind", "steps", "share"), [("all_reduce", 6, 1.5), ("all_gather", 3, 0.75)])
def test_a_line_is_found_again(kind: str, steps: int, share: float) -> None:
    rows = [{"nbytes": size, "seconds": steps * 2e-5 + share * size / 2e9} for size in SIZES]
    link, error = collective_link(kind, 4, rows)
    assert link == {"bandwidth": "2 GB/s", "latency": "20 us"}
    assert error < 1e-6


def test_profiles_load(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    _write(tmp_path, profiles(machine()))
    gpu, node, engine = (load("mine", [tmp_path]) for load in (load_gpu, load_node, load_engine))
    assert (gpu.link.kind, gpu.tdp, gpu.pcie) == ("shared_memory", None, None)
    assert gpu.memory_bandwidth == pytest.approx(5e10, rel=1e-3)
    assert gpu.efficiency.activation["fp32"][0].memory == pytest.approx(0.1, rel=1e-3)
    assert gpu.efficiency.norm["default"][0].memory == pytest.approx(0.5, rel=1e-3)
    assert gpu.peak["bf16"].dense == pytest.approx(4e11, rel=0.1)
    assert node.interconnect.collectives[str(CollectiveKind.ALL_REDUCE)].bandwidth == pytest.approx(1e9, rel=1e-3)
    assert node.shared_memory_bandwidth == pytest.approx(6e10, rel=1e-3)
    assert "simsys measure, 2026-11-25, torch 2.13.0, 1 threads, spread 2%" in gpu.sources["memory_bandwidth"]
    assert engine.communication_share == 0.9


def test_a_machine_for_one_rank_has_no_collectives(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    _write(tmp_path, profiles(machine(1)))
    node = load_node("mine", [tmp_path])
    assert node.interconnect.collectives is None
    assert node.shared_memory_bandwidth is None
