"""The work of a pass: kernels, made from operators, a batch and a precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from simsys.model.batch import Batch
from simsys.model.operators import Operator, OperatorKind
from simsys.model.precision import Precision
from simsys.sums import ordered_sum

__all__ = [
    "FP32_BYTES",
    "Kernel",
    "Precision",
    "Work",
    "backward_work",
    "both_passes_flop",
    "forward_work",
    "kernel_of",
]

FP32_BYTES = 4.0
ATTENTION, DECODE_ATTENTION = OperatorKind.ATTENTION, OperatorKind.DECODE_ATTENTION


class Kernel(NamedTuple):
    """One kernel on a device: its computation and memory traffic.

    Args:
        kind: Name of its efficiency curve.
        flop: Floating-point operations.
        nbytes: Bytes read and written in device memory.
        rows: GEMM rows m, per expert for experts; 0 without a GEMM.
        columns: GEMM columns n.
        inner: GEMM inner dimension k.
        dtype: Compute data type, such as ``bf16``.
        effort: Compute time over that of the best kernel for the same FLOP.
        launches: Number of kernels that share the FLOP and the bytes, such as the two products of a backward pass.
        grouped: Whether it is a grouped GEMM, as of experts.
        role: For what devices may have an efficiency of its own: ``norm``, ``activation``, ``update`` (of weights)
            or ``buffers`` (copies) of element-wise kernels, ``deep_gemm`` of products of experts.
        backward_share: Work of its backward pass over the usual one, as of frozen weights.
    """

    kind: OperatorKind
    flop: float
    nbytes: float
    rows: float = 0.0
    columns: int = 0
    inner: int = 0
    dtype: str = "bf16"
    effort: float = 1.0
    launches: float = 1.0
    grouped: bool = False
    role: str = ""
    backward_share: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Kernels that run one after another on one device; compared by identity, so that it can be a cache key.

    Args:
        kernels: In order.
        layers: Number of layers whose host overhead the kernels carry.
        host_s: Additional host time for which the device waits.
    """

    kernels: tuple[Kernel, ...] = field(default=())
    layers: float = 0.0
    host_s: float = 0.0

    @property
    def flop(self) -> float:
        """Total floating-point operations of the kernels."""
        return ordered_sum(kernel.flop for kernel in self.kernels)

    @property
    def nbytes(self) -> float:
        """Total bytes moved by the kernels."""
        return ordered_sum(kernel.nbytes for kernel in self.kernels)


def kernel_of(operator: Operator, batch: Batch, precision: Precision) -> Kernel:
    """The kernel that `operator` launches for one forward pass over `batch`.

    A critical-path factor lengthens the kernel, but adds no FLOP to it; nor does the effort of the operator.
    """
    prompts = batch.attention_pairs > 0.0
    factor = operator.scale(prompts=prompts).factor * operator.effort
    operator = operator.costed(prompts=prompts)
    flop, nbytes, rows = amounts(operator, batch, precision, precision.bytes_per_weight(operator))
    return Kernel(
        kind=operator.kind,
        flop=flop / factor,
        nbytes=nbytes,
        rows=rows,
        columns=operator.columns,
        inner=operator.inner,
        dtype=precision.dtype(operator),
        effort=factor,
        grouped=operator.grouped,
        role=operator.role,
        backward_share=operator.backward_share,
    )


def amounts(
    operator: Operator, batch: Batch, precision: Precision, bytes_per_weight: float
) -> tuple[float, float, float]:
    """Return FLOP times effort, bytes and rows of this kernel for a number of bytes per weight."""
    tokens, kind = batch.logits if operator.per_logit else batch.tokens, operator.kind
    computed = tokens + operator.padding_tokens if tokens else 0.0
    flop = operator.flop_per_token * computed
    elements_bytes = operator.elements_per_token * computed * precision.activation_bytes
    weight_bytes = operator.parameters_read(tokens) * bytes_per_weight if tokens else 0.0
    context_bytes = 0.0
    if kind is ATTENTION:
        pairs = batch.pairs(operator.pairs)
        elements = operator.elements_per_key_token * batch.tokens
        if batch.unfused_attention:
            elements += operator.elements_per_pair * pairs
        flop += operator.flop_per_pair * pairs
        elements_bytes += elements * precision.activation_bytes
        context_bytes = operator.elements_per_context_token * batch.prompt_context_tokens * precision.kv_bytes
    elif kind is DECODE_ATTENTION:
        # The longest of several sequences delays the rest; a single one has no such delay.
        skew = operator.length_skew if batch.decode_sequences != 1.0 else 1.0
        flop += operator.flop_per_pair * (batch.decode_context_tokens + batch.verified_pairs) * skew
        context_bytes = operator.elements_per_context_token * batch.decode_context_tokens * precision.kv_bytes * skew
    return flop * operator.effort, weight_bytes + elements_bytes + context_bytes, operator.rows(tokens)


def forward_work(operators: Sequence[Operator], batch: Batch, precision: Precision, *, layers: float = 1.0) -> Work:
    """The work of one forward pass over `operators`."""
    kernels = tuple(kernel_of(operator, batch, precision) for operator in operators)
    return Work(tuple(kernel for kernel in kernels if kernel.flop or kernel.nbytes), layers=layers)


def backward_work(forward: Work, ratio: float = 2.0) -> Work:
    """The work of the backward pass, `ratio` times the FLOP and bytes of the forward pass.

    Gradients with respect to inputs and to weights are two products of the forward's size, so the ratio is 2
    (Narayanan et al. 2021, appendix) unless a block says otherwise (`Block.backward_flop_ratio`). Each product is a
    kernel of its own.
    """
    kernels = tuple(_gradient(kernel, ratio) for kernel in forward.kernels if kernel.backward_share)
    return Work(kernels, layers=forward.layers)


def both_passes_flop(operators: Sequence[Operator], ratio: float, batch: Batch) -> float:
    """FLOP of a forward and a backward pass, whose usual work is `ratio` times that of the forward pass."""
    forward = forward_work(operators, batch, Precision())
    if any(operator.frozen for operator in operators):
        return forward.flop + backward_work(forward, ratio).flop
    return (1.0 + ratio) * forward.flop


def _gradient(kernel: Kernel, ratio: float) -> Kernel:
    ratio *= kernel.backward_share
    launches = ratio * kernel.launches if kernel.kind is OperatorKind.GEMM else kernel.launches
    return kernel._replace(flop=ratio * kernel.flop, nbytes=ratio * kernel.nbytes, launches=launches)


def training_work(work: Work, *, attention: float, scores: float, memory: float) -> Work:
    """Return the work with slower attention kernels and with less fused element-wise kernels.

    Args:
        work: The work with the best kernels.
        attention: Factor of the compute time of attention.
        scores: Factor of the bytes that attention moves.
        memory: Factor of the bytes that element-wise kernels move.
    """
    return replace(work, kernels=tuple(_other(kernel, attention, scores, memory) for kernel in work.kernels))


def _other(kernel: Kernel, attention: float, scores: float, memory: float) -> Kernel:
    if kernel.kind is OperatorKind.ATTENTION:
        return kernel._replace(effort=kernel.effort * attention, nbytes=kernel.nbytes * scores)
    if kernel.kind is OperatorKind.MEMORY:
        return kernel._replace(nbytes=kernel.nbytes * memory)
    return kernel
