"""Rows of measured kernels: matrix products and decode attention, by GPU and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.fidelity.tables.facts import facts
from simsys.fidelity.tables.hardware_names import Machines
from simsys.fidelity.tables.table import Row, Table
from simsys.fidelity.tables.words import kernel_words

Vector: TypeAlias = NDArray[np.float64]

GEMM_COLUMNS = ("system", "gemm_dtype", "shape", "m", "n", "k", "latency_us")
ATTENTION_COLUMNS = ("system", "kv_cache_dtype", "batch_size", "step", "latency_us")
KV_HEADS, HEAD_SIZE = 8, 128
"""Key-value heads and their width of the attention in such tables."""
FEWEST = 20
"""Kernels of a GPU and dtype below which they are left out."""
SHORT_CONTEXT = 128
"""Cached tokens of a sequence below which attention kernels read more than they need; such kernels are left out."""


@dataclass(frozen=True)
class MeasuredKernels:
    """Kernels of one GPU and dtype.

    Args:
        gpu: The GPU's profile.
        kind: Kind of the kernels, as in profiles.
        dtype: As in profiles.
        sizes: Sizes by column: ``m``, ``n``, ``k``, or ``batch_size``, ``step`` (cached tokens of a sequence).
        measured_s: The time of each kernel.
        folds: Fold of each kernel; kernels of one fold are not divided between a fit and its test.
    """

    gpu: str
    kind: Literal["gemm", "decode_attention"]
    dtype: str
    sizes: Mapping[str, Vector]
    measured_s: Vector
    folds: Sequence[str]

    @property
    def kv_bytes(self) -> Vector:
        """Bytes of keys and values that each attention kernel reads."""
        nbytes = kernel_words().bytes_per_element[self.dtype]
        return 2.0 * KV_HEADS * HEAD_SIZE * nbytes * self.sizes["batch_size"] * self.sizes["step"]


def is_kernel_table(table: Table) -> bool:
    """Whether a table holds measured kernels, not runs."""
    return any(
        len(set(columns) & set(table.columns)) > len(columns) // 2 and columns[1] in table.columns
        for columns in (GEMM_COLUMNS, ATTENTION_COLUMNS)
    )


def measured_kernels(table: Table) -> list[MeasuredKernels]:
    """Return the kernels of a table, for each GPU and dtype that has enough of them.

    Raises:
        ConfigError: With all problems of the cells.
    """
    gemm = "gemm_dtype" in table.columns
    table.require(GEMM_COLUMNS if gemm else ATTENTION_COLUMNS)
    groups: dict[tuple[str, str], list[Row]] = {}
    systems, dtypes = facts(Machines).kernel_systems, kernel_words().dtypes
    for row in table.rows:
        dtype = dtypes.get(row.text("gemm_dtype" if gemm else "kv_cache_dtype"))
        if dtype is not None:
            groups.setdefault((systems.get(row.text("system"), row.text("system")), dtype), []).append(row)
    columns = GEMM_COLUMNS[3:6] if gemm else ATTENTION_COLUMNS[2:4]
    middle = {key: _middle(rows, columns) for key, rows in groups.items()}
    found = [_kernels(*key, rows, columns) for key, rows in middle.items() if len(rows) >= FEWEST]
    table.check()
    return found


def _middle(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Return for each size the kernel with the median time among frameworks, or the faster of two.

    A framework without a good kernel for a dtype is several times slower for all shapes.
    """
    found: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.number(column) for column in columns), []).append(row)
    by_time = (sorted(same, key=lambda row: row.number("latency_us")) for same in found.values())
    return [same[(len(same) - 1) // 2] for same in by_time]


def _kernels(gpu: str, dtype: str, rows: Sequence[Row], columns: Sequence[str]) -> MeasuredKernels:
    gemm = "m" in columns
    if not gemm:
        rows = [row for row in rows if row.number("step") >= SHORT_CONTEXT]
    return MeasuredKernels(
        gpu,
        "gemm" if gemm else "decode_attention",
        dtype,
        {column: np.array([row.number(column) for row in rows]) for column in columns},
        np.array([row.number("latency_us") for row in rows]) * 1e-6,
        [row.text("shape" if gemm else "batch_size") for row in rows],
    )
