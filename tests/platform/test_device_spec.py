"""Kernel times: the roofline's limits, the efficiency curves, and what a device cannot do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.build.device import build_device_spec
from simsys.config.hardware import load_gpu
from simsys.errors import InfeasibleError, UsageError
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel, Work
from simsys.platform.device_spec import DeviceSpec, EfficiencyCurve, kernel_seconds, work_seconds

FLAT = EfficiencyCurve((1.0,), (0.5,), (0.8,))
RISING = EfficiencyCurve((1.0, 64.0, 4096.0), (0.1, 0.4, 0.8), (0.7, 0.8, 0.8))
SPEC = DeviceSpec(
    name="toy",
    peak_flop_per_s={"bf16": 100e12, "fp8": 200e12},
    memory_bytes=80e9,
    memory_bytes_per_s=1e12,
    link_bytes_per_s=300e9,
    link_latency_s=1e-6,
    pcie_bytes_per_s=32e9,
    pcie_latency_s=1e-6,
    tdp_watt=400.0,
    usd_per_hour=2.0,
    curves={
        "gemm": {"default": RISING, "fp8": FLAT},
        "conv": {"default": FLAT},
        "attention": {"default": FLAT},
        "decode_attention": {"default": FLAT},
        "memory": {"default": FLAT},
    },
    floor_s={"decode_attention": {"default": 8e-6, "fp8": 3e-6}},
)

amounts = st.floats(0.0, 1e15)
row_counts = st.floats(0.0, 1e7)


def gemm(flop: float, nbytes: float, rows: float = 4096.0, dtype: str = "bf16") -> Kernel:
    return Kernel(OperatorKind.GEMM, flop, nbytes, rows=rows, dtype=dtype)


def test_systolic_arrays_pad_both_sides_of_a_tile() -> None:
    spec, kernel = replace(SPEC, matrix_unit=256), gemm(100e12, 0.0)
    whole = kernel_seconds(spec, kernel._replace(columns=512, inner=4096))
    assert whole == kernel_seconds(SPEC, kernel)
    assert kernel_seconds(spec, kernel._replace(columns=384, inner=4096)) == pytest.approx(whole / 0.75)
    assert kernel_seconds(spec, kernel._replace(columns=384, inner=128)) == pytest.approx(whole / 0.75 / 0.5)
    attention = Kernel(OperatorKind.ATTENTION, 100e12, 0.0, inner=64)
    assert kernel_seconds(spec, attention) == pytest.approx(4 * kernel_seconds(SPEC, attention))


def test_products_of_experts_have_their_own_curve_if_any() -> None:
    plain = gemm(100e12, 0.0, dtype="fp8")
    assert kernel_seconds(SPEC, plain._replace(grouped=True)) == kernel_seconds(SPEC, plain)
    slow = EfficiencyCurve((1.0,), (0.1,), (0.4,))
    spec = replace(SPEC, curves={**SPEC.curves, "grouped_gemm": {"default": slow}})
    assert kernel_seconds(spec, plain._replace(grouped=True)) == pytest.approx(5.0)
    assert kernel_seconds(spec, gemm(0.0, 0.4e12)._replace(grouped=True)) == pytest.approx(1.0)
    assert kernel_seconds(spec, plain) == kernel_seconds(SPEC, plain)


def test_weights_that_are_only_stored_in_fewer_bits_are_computed_with_in_16_bit() -> None:
    for name in ("A100-SXM-80GB", "V100-SXM-32GB"):
        spec = build_device_spec(load_gpu(name))
        half = "bf16" if "bf16" in spec.peak_flop_per_s else "fp16"
        kernel = gemm(1e12, 1.0)._replace(columns=4096, inner=4096)
        took_s = [kernel_seconds(spec, kernel._replace(dtype=dtype)) for dtype in (half, "weight_only")]
        assert took_s[0] == took_s[1]


def test_compute_bound_kernel_runs_at_its_share_of_the_peak() -> None:
    assert kernel_seconds(SPEC, gemm(80e12, 1.0)) == pytest.approx(1.0)


def test_memory_bound_kernel_runs_at_its_share_of_the_bandwidth() -> None:
    assert kernel_seconds(SPEC, gemm(1.0, 0.8e12)) == pytest.approx(1.0)


def test_a_dtype_with_its_own_curve_and_peak_uses_both() -> None:
    assert kernel_seconds(SPEC, gemm(100e12, 0.0, dtype="fp8")) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", list(OperatorKind))
def test_every_kind_of_operator_has_a_time(kind: OperatorKind) -> None:
    assert kernel_seconds(SPEC, Kernel(kind, 1e12, 1e9)) > 0


def test_the_floor_is_that_of_the_kind_and_dtype_and_comes_on_top() -> None:
    tiny = Kernel(OperatorKind.DECODE_ATTENTION, 1.0, 1.0, dtype="bf16")
    assert kernel_seconds(SPEC, tiny) == pytest.approx(8e-6)
    assert kernel_seconds(SPEC, tiny._replace(dtype="fp8")) == pytest.approx(3e-6)
    assert kernel_seconds(SPEC, tiny._replace(kind=OperatorKind.ATTENTION)) < 1e-11
    assert kernel_seconds(SPEC, tiny._replace(nbytes=0.8e6)) == pytest.approx(8e-6 + 1e-6)


def test_missing_dtype_names_those_the_device_has() -> None:
    with pytest.raises(InfeasibleError, match=r"toy has no fp4 arithmetic; it has bf16, fp8"):
        kernel_seconds(SPEC, gemm(1e9, 1e6, dtype="fp4"))


def test_moving_bytes_needs_no_arithmetic_in_their_dtype() -> None:
    assert kernel_seconds(SPEC, Kernel(OperatorKind.MEMORY, 0.0, 0.8e12, dtype="fp4")) == pytest.approx(1.0)


@given(amounts, amounts, st.floats(1.0, 4.0), row_counts, st.sampled_from(["bf16", "fp8"]))
def test_more_flop_or_bytes_never_take_less(
    flop: float, nbytes: float, factor: float, rows: float, dtype: str
) -> None:
    base = kernel_seconds(SPEC, gemm(flop, nbytes, rows, dtype))
    assert kernel_seconds(SPEC, gemm(flop * factor, nbytes, rows, dtype)) >= base
    assert kernel_seconds(SPEC, gemm(flop, nbytes * factor, rows, dtype)) >= base
    assert base >= max(flop / SPEC.peak_flop_per_s[dtype], nbytes / SPEC.memory_bytes_per_s)


@given(row_counts, row_counts)
def test_rising_curve_is_read_monotonically_and_clamped(a: float, b: float) -> None:
    low, high = sorted((a, b))
    compute_low, memory_low = RISING.at(low)
    compute_high, memory_high = RISING.at(high)
    assert compute_low <= compute_high + 1e-12
    assert memory_low <= memory_high + 1e-12
    assert 0.1 <= compute_low <= compute_high + 1e-12 <= 0.8 + 2e-12


@pytest.mark.parametrize(
    ("rows", "compute"), [(0, 0.1), (0.5, 0.1), (1, 0.1), (8, 0.25), (64, 0.4), (512, 0.6), (4096, 0.8), (1e9, 0.8)]
)
def test_curve_is_linear_in_the_logarithm_of_rows(rows: float, compute: float) -> None:
    assert RISING.at(rows)[0] == pytest.approx(compute, rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "compute", "memory"),
    [
        ((), (), ()),
        ((1.0,), (0.5, 0.6), (0.5,)),
        ((0.0,), (0.5,), (0.5,)),
        ((8.0, 1.0), (0.5, 0.6), (0.5, 0.6)),
        ((1.0, 1.0), (0.5, 0.6), (0.5, 0.6)),
        ((1.0, math.inf), (0.5, 0.6), (0.5, 0.6)),
        ((math.nan,), (0.5,), (0.5,)),
        ((1.0,), (0.0,), (0.5,)),
        ((1.0,), (0.5,), (1.5,)),
        ((1.0,), (math.nan,), (0.5,)),
    ],
)
def test_impossible_curves_are_refused(
    rows: tuple[float, ...], compute: tuple[float, ...], memory: tuple[float, ...]
) -> None:
    with pytest.raises(UsageError):
        EfficiencyCurve(rows, compute, memory)


@given(st.lists(st.tuples(amounts, amounts), max_size=8), st.floats(0.0, 100.0))
def test_work_is_its_kernels_one_after_another_plus_the_overhead(
    sizes: list[tuple[float, float]], layers: float
) -> None:
    kernels = tuple(gemm(flop, nbytes) for flop, nbytes in sizes)
    expected = layers * 50e-6 + math.fsum(kernel_seconds(SPEC, kernel) for kernel in kernels)
    assert work_seconds(SPEC, Work(kernels, layers), 50e-6) == pytest.approx(expected, rel=1e-12)


def test_specs_are_compared_and_hashed_by_value() -> None:
    assert {SPEC: 1}[replace(SPEC)] == 1
    assert replace(SPEC, memory_bytes=40e9) != SPEC


@pytest.mark.parametrize(
    ("columns", "inner", "factor"), [(4096, 4096, 1.0), (50257, 4096, 0.4), (4096, 150, 0.1), (4, 4, 1.0)]
)
def test_products_of_rows_that_are_not_aligned_are_slow(columns: int, inner: int, factor: float) -> None:
    spec = build_device_spec(load_gpu("A100-SXM-80GB"))
    kernel = Kernel(OperatorKind.GEMM, flop=1e15, nbytes=0.0, rows=4096, dtype="bf16")
    floor_s = kernel_seconds(spec, kernel._replace(flop=0.0))
    aligned_s = kernel_seconds(spec, kernel) - floor_s
    found_s = kernel_seconds(spec, kernel._replace(columns=columns, inner=inner)) - floor_s
    assert aligned_s / found_s == pytest.approx(factor)
