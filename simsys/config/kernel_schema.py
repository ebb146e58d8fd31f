"""The schema of the efficiency of a GPU's kernels: shares of the peaks, and a fixed time, by kind and dtype."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from simsys.config.base import FrozenModel, invalid
from simsys.units import Fraction, NonNegativeSeconds

DType: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4"]
KernelDType: TypeAlias = DType | Literal["fp8_block", "weight_only", "default"]
"""Dtypes of kernels. Fp8 with a scale for each block has its own entries, as have weights that are computed in 16
bit."""
KernelKind: TypeAlias = Literal["gemm", "conv", "attention", "decode_attention", "memory"]


class CurvePoint(FrozenModel):
    """Shares of peak compute and of peak memory bandwidth at a number of GEMM rows (tokens)."""

    rows: Annotated[int, Field(strict=True, ge=1)]
    compute: Fraction
    memory: Fraction


def _increasing(points: tuple[CurvePoint, ...]) -> tuple[CurvePoint, ...]:
    if any(left.rows >= right.rows for left, right in pairwise(points)):
        raise invalid("the points of a curve are in order of increasing rows")
    return points


def _with_default(curves: dict[str, Any]) -> dict[str, Any]:
    if "default" not in curves:
        raise invalid("an entry named 'default' is needed, for the dtypes that have none of their own")
    return curves


Curve = Annotated[tuple[CurvePoint, ...], Field(min_length=1), AfterValidator(_increasing)]
Curves = Annotated[dict[KernelDType, Curve], AfterValidator(_with_default)]


def _by_dtype(given: Any) -> Any:
    return given if isinstance(given, Mapping) else {"default": given}


Floors = Annotated[dict[KernelDType, NonNegativeSeconds], BeforeValidator(_by_dtype), AfterValidator(_with_default)]


class Efficiency(FrozenModel):
    """Curves by kind of kernel, each by dtype or ``default``, interpolated linearly in the logarithm of the rows.

    `grouped_gemm` is the matrix products of experts, by the rows of each expert; left out, it equals `gemm`.
    `deep_gemm` is the same by DeepGEMM, for tokens that DeepEP delivers, in 8 bit with a scale for each block. It has
    no `expert_effort` of the engine. Left out, these products are like others. `paged_attention`, `masked_attention`
    and `blocked_attention` are decode attention by the kernels of some releases (`DecodeKernels`), by sequences times
    query heads; left out, they equal `decode_attention`. `norm`, `activation`, `update` and `buffers` are element-wise
    kernels that another limit than bandwidth may decide, such as arithmetic on a CPU: norms with their residual sums,
    activation functions, updates of weights by the optimizer, and copies between weights and communication buffers;
    left out, they equal `memory`.
    """

    gemm: Curves
    grouped_gemm: Curves | None = None
    deep_gemm: Curves | None = None
    conv: Curves
    attention: Curves
    decode_attention: Curves
    paged_attention: Curves | None = None
    masked_attention: Curves | None = None
    blocked_attention: Curves | None = None
    memory: Curves
    norm: Curves | None = None
    activation: Curves | None = None
    update: Curves | None = None
    buffers: Curves | None = None
