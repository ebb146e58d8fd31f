"""Gradient compression: additional computation and collectives instead of an all-reduce of gradients. Pure data.

The methods are PyTorch's communication hooks for ``DistributedDataParallel``
(``torch.distributed.algorithms.ddp_comm_hooks``) in their steady state, and top-k sparsification. All are linear in
the number of gradients, so a bucket has its share of the total cost. The division by the number of ranks is neglected,
as without compression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from simsys.collectives.base import CollectiveKind
from simsys.model.operators import Operator, OperatorKind
from simsys.model.work import FP32_BYTES, Kernel, Work

Method = Literal["none", "fp16", "bf16", "fp8", "topk", "powersgd"]
ERROR_FEEDBACK = frozenset(("topk", "powersgd"))
"""Methods with error feedback: they keep the unsent part, as large as the gradients, for the next step."""
CAST_BYTES = {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0}

INDEX_BYTES = 4.0
SELECTION_PASSES = 5
"""Readings of all magnitudes by a selection on the GPU:

one for each 8 of the 32 bits to find the k-th largest, one to gather larger values (radix select:
ATen/native/cuda/TensorTopK.cu; Alabi et al. 2012, "Fast k-selection").
"""
MIN_COMPRESSION_RATE = 2.0
"""PowerSGD leaves a matrix alone if it would not shrink by more than this (PyTorch's `PowerSGDState`)."""

Matrix = tuple[float, float, int]
"""Rows, columns, and how many there are."""


@dataclass(frozen=True, slots=True, eq=False)
class CompressedExchange:
    """Replacement of the all-reduce of a bucket.

    Args:
        collectives: Kind and bytes of the full buffer, one after another over the ranks that hold the same weights.
        before: Computation before the first collective.
        after: Computation after the last one, before the optimizer can use the gradients.
    """

    collectives: tuple[tuple[CollectiveKind, float], ...]
    before: Work
    after: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """A method and the gradients to compress.

    Args:
        method: The method.
        ranks: Ranks that reduce gradients.
        gradient_bytes: Bytes of all reduced gradients, fp32.
        matrices: Weight matrices.
        topk_ratio: Share of the gradients that top-k sends.
        powersgd_rank: Rank of PowerSGD's approximation.
    """

    method: Method
    ranks: int
    gradient_bytes: float
    matrices: tuple[Matrix, ...] = ()
    topk_ratio: float = 0.01
    powersgd_rank: int = 1

    def exchange(self, nbytes: float) -> CompressedExchange:
        """Computation and collectives for `nbytes` of gradients."""
        if self.method == "topk":
            return top_k(nbytes, self.topk_ratio, self.ranks)
        if self.method == "powersgd":
            return power_sgd(nbytes, self.powersgd_rank, self.gradient_bytes, self.matrices)
        if self.method == "none":
            return CompressedExchange(((CollectiveKind.ALL_REDUCE, nbytes),), Work(), Work())
        return cast(nbytes, CAST_BYTES[self.method])


def cast(nbytes: float, sent_bytes: float) -> CompressedExchange:
    """An all-reduce in a narrower type (PyTorch's ``fp16_compress_hook`` and ``bf16_compress_hook``).

    Gradients are read in fp32 and written in the narrow type before, and converted back after. In fp8, scales are
    known from earlier steps (delayed scaling) at no cost.

    Args:
        nbytes: Bytes of the gradients in fp32.
        sent_bytes: Bytes of one value of the narrow type.
    """
    elements = nbytes / FP32_BYTES
    conversion = _memory((FP32_BYTES + sent_bytes) * elements)
    return CompressedExchange(
        ((CollectiveKind.ALL_REDUCE, sent_bytes * elements),), Work((conversion,)), Work((conversion,))
    )


def top_k(nbytes: float, ratio: float, ranks: int) -> CompressedExchange:
    """The largest gradients by magnitude with their places (Aji & Heafield 2017; Lin et al. 2018).

    Every rank chooses other places, so nothing can be summed on the way: values and indices of all ranks are
    all-gathered, and the traffic grows with the ranks (Agarwal et al. 2022). Before: error feedback (read
    gradient and error, write the sum); its magnitude (read, write); `SELECTION_PASSES` readings; values and indices of
    the chosen written, and zeroes in their places in the error. After: gradients zeroed, then for each of the ranks'
    values its value and index read and the gradient it belongs to read and written.

    Args:
        nbytes: Bytes of the gradients in fp32.
        ratio: Share of them that is sent.
        ranks: Ranks that send theirs.
    """
    elements = nbytes / FP32_BYTES
    chosen = ratio * elements
    before = (
        _memory(3 * nbytes),
        _memory(2 * nbytes),
        _memory(SELECTION_PASSES * nbytes + (FP32_BYTES + INDEX_BYTES) * chosen),
        _memory((INDEX_BYTES + FP32_BYTES) * chosen),
    )
    after = (_memory(nbytes), _memory((3 * FP32_BYTES + INDEX_BYTES) * ranks * chosen))
    gathered = (
        (CollectiveKind.ALL_GATHER, FP32_BYTES * ranks * chosen),
        (CollectiveKind.ALL_GATHER, INDEX_BYTES * ranks * chosen),
    )
    return CompressedExchange(gathered, Work(before), Work(after))


def power_sgd(nbytes: float, rank: int, gradient_bytes: float, matrices: Iterable[Matrix]) -> CompressedExchange:
    """A low-rank approximation of each matrix (Vogels et al. 2019, alg. 1; PyTorch's ``powerSGD_hook``).

    Of a matrix M (n × m): P = M·Q (n × r), all-reduced and made orthonormal; Q = Mᵀ·P (m × r), all-reduced; then
    M ≈ P·Qᵀ. Q starts from the orthonormalised Q of the previous step. Vectors, and matrices with little reduction,
    are packed and all-reduced uncompressed. Error feedback adds the error to the gradient and copies the sum before,
    and subtracts the approximation from the copy after.

    Both products are computed before the two all-reduces, although the second product needs the result of the first
    all-reduce. The sum is equal, and no computation starts in the backward pass at a time known to the network only.
    PyTorch's first iterations without compression (``start_powerSGD_iter``) are not modelled.

    Args:
        nbytes: Bytes of the gradients in fp32, with the same share of matrices as `gradient_bytes`.
        rank: r.
        gradient_bytes: Bytes of all gradients in fp32.
        matrices: Gradients of matrices among them.
    """
    share = nbytes / gradient_bytes
    left_products, right_products, approximations = [], [], []
    p_elements = q_elements = approximated = orthonormal_bytes = 0.0
    for (rows, columns), count in _shapes(matrices).items():
        r = min(float(rank), rows, columns)
        if MIN_COMPRESSION_RATE * (rows + columns) * r >= rows * columns:
            continue
        number = share * count
        p_elements += number * rows * r
        q_elements += number * columns * r
        approximated += count * rows * columns
        orthonormal_bytes += number * _orthonormal_bytes(rows + columns, r)
        left_products.append(_product(r, rows, columns, number))
        right_products.append(_product(r, columns, rows, number))
        approximations.append(_product(rows, columns, r, number))
    rest_bytes = share * max(0.0, gradient_bytes - FP32_BYTES * approximated)
    packing = (_memory(2 * rest_bytes),) if rest_bytes else ()
    sent = (rest_bytes, FP32_BYTES * p_elements, FP32_BYTES * q_elements)
    kept = (_memory(5 * nbytes), *packing)
    orthonormal = (_memory(orthonormal_bytes),) if orthonormal_bytes else ()
    return CompressedExchange(
        tuple((CollectiveKind.ALL_REDUCE, each) for each in sent if each),
        Work((*kept, *left_products, *orthonormal, *right_products)),
        Work((*approximations, *packing, _memory(3 * nbytes))),
    )


def weight_matrices(operators: Iterable[Operator], width: float) -> Iterator[Matrix]:
    """The weights of operators that are matrices, as output × input features; biases and norms are none.

    Args:
        operators: A rank's share of a block.
        width: Features that the block hands on: the length of a row of an embedding.
    """
    for operator in operators:
        if not operator.parameters:
            continue
        if operator.lookup and width:
            yield operator.parameters / width, width, 1
        elif operator.columns and operator.inner:
            rows = min(float(operator.columns), operator.parameters / operator.inner)  # a vocabulary may be padded
            count = 1 if operator.experts == 1 else round(operator.parameters / (operator.columns * operator.inner))
            yield rows, float(operator.inner), count


def _shapes(matrices: Iterable[Matrix]) -> Counter[tuple[float, float]]:
    """The number of matrices of each shape."""
    shapes: Counter[tuple[float, float]] = Counter()
    for rows, columns, count in matrices:
        shapes[rows, columns] += count
    return shapes


def _product(rows: float, columns: float, inner: float, number: float) -> Kernel:
    """`number` products (rows × inner)·(inner × columns) in fp32: operands read, result written."""
    return Kernel(
        OperatorKind.GEMM,
        flop=2.0 * rows * columns * inner * number,
        nbytes=FP32_BYTES * (rows * inner + inner * columns + rows * columns) * number,
        rows=rows,
        columns=round(columns),
        inner=round(inner),
        dtype="fp32",
    )


def _orthonormal_bytes(rows: float, columns: float) -> float:
    """Traffic of the Gram-Schmidt process: each column three passes (norm; read and written to scale it).

    And three over every column behind it (product; read and written to subtract its projection).
    """
    return FP32_BYTES * 3.0 * rows * columns * (columns + 1.0) / 2.0


def _memory(nbytes: float) -> Kernel:
    return Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes)
