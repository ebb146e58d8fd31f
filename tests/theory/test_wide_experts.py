"""Published figures of experts on many nodes: the products of DeepGEMM, and DeepSeek-V3 in SGLang."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simsys.build.device import build_device_spec
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_gpu
from simsys.metrics.result import RunResult
from simsys.model.operators import OperatorKind
from simsys.platform.device_spec import KernelRates
from simsys.simulation import simulate

FILE = Path(__file__).parents[2] / "experiments" / "wide_experts.yaml"
MEASURED_PER_NODE = {"prefill-on-32-h100": 59_337.0, "decode-on-72-h100": 22_282.0, "decode-on-48-gb200": 4 * 7583.0}
"""Tokens per second of a node (LMSYS blogs of 2025-05-05 and 2025-06-16)."""
DEEP_GEMM = [
    *((1, 1024, 4096, 7168, 1233), (1, 1024, 7168, 2048, 925), (2, 512, 4096, 7168, 1040), (2, 512, 7168, 2048, 916)),
    *((4, 256, 4096, 7168, 932), (4, 256, 7168, 2048, 815), (4, 8192, 4096, 7168, 1297), (4, 8192, 7168, 2048, 1099)),
    *((8, 4096, 4096, 7168, 1288), (8, 4096, 7168, 2048, 1093)),
]
"""Groups, rows of each, columns, inner dimension, TFLOP/s on an H800 (README of deepseek-ai/DeepGEMM, April 2025)."""


@cache
def run(name: str) -> RunResult:
    """Simulate a scenario of the file."""
    return simulate(SimulationConfig.from_yaml(FILE, name))


def per_node(name: str) -> float:
    """Predicted tokens per second of a node."""
    config, metrics = SimulationConfig.from_yaml(FILE, name), run(name).metrics
    if name.startswith("prefill"):
        return float(metrics["total_token_throughput"]) / 4.0
    assert config.serving is not None
    assert config.serving.max_num_seqs is not None
    gpus = 4 if "gb200" in name else 8
    return float(config.serving.max_num_seqs * gpus / metrics["median_itl_ms"] * 1e3)


@pytest.mark.parametrize(("groups", "rows", "columns", "inner", "teraflop_per_s"), DEEP_GEMM)
def test_products_by_deep_gemm(groups: int, rows: int, columns: int, inner: int, teraflop_per_s: float) -> None:
    """The curve is one for both products of an expert; the fitted time of a kernel beside it is longer than theirs."""
    spec = build_device_spec(load_gpu("H100-SXM"))
    rates = KernelRates(spec, OperatorKind.GEMM, "fp8_block", 1.0, True, "deep_gemm")
    flop = 2.0 * groups * rows * columns * inner
    nbytes = groups * (columns * inner + rows * inner + 2.0 * rows * columns)
    seconds = max(rates.bounds(flop, nbytes, rows))
    assert seconds == pytest.approx(flop / (teraflop_per_s * 1e12), rel=0.25)


@pytest.mark.parametrize(
    ("name", "within"), [("decode-on-72-h100", 0.1), ("prefill-on-32-h100", 0.25), ("decode-on-48-gb200", 0.55)]
)
def test_throughput_of_a_node(name: str, within: float) -> None:
    """Blackwell is worst: its curve of experts is that of engines whose kernels are not DeepGEMM's."""
    assert per_node(name) == pytest.approx(MEASURED_PER_NODE[name], rel=within)


def test_gain_of_two_halves() -> None:
    """Overlap made the 256 sequences of each GPU 25.5 % faster; without the time in which kernels occupy it, 70 %."""
    gain = per_node("decode-on-72-h100") / per_node("decode-in-turn") - 1.0
    assert gain == pytest.approx(0.255, abs=0.05)


def describe(name: str) -> dict[str, Any]:
    """The assumptions of a scenario, by the word before the colon."""
    return dict(line.split(": ", 1) for line in run(name).assumptions if ": " in line)


def test_the_answer_says_which_kernels_multiply() -> None:
    assert "DeepGEMM" in describe("decode-on-72-h100")["products of experts"]
    assert "35% of each GPU" in describe("decode-on-72-h100")["exchange"]
    assert "products of experts" not in describe("decode-on-48-gb200")
