"""Precisions in which numbers are stored, moved and computed."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from simsys.model.operators import Operator, OperatorKind
from simsys.model.quantization import INT8_ARITHMETIC, Quantization

SCALE_GROUP = 128
"""Weights that share a scale of 16 bit in group-wise quantisation (Lin et al. 2024, AWQ, §4; Frantar et al. 2023)."""
SCALE_BYTES = 2.0 / SCALE_GROUP

WEIGHT_BYTES = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,  # one scale for a tensor or channel: nothing next to the weights
    "fp8_block": 1.0 + 4.0 / 128**2,  # a 32-bit scale for each block of 128 x 128 (DeepSeek-V3, section 3.3)
    "int8": 1.0 + SCALE_BYTES,
    "fp4": 0.5 + 1.0 / 16,  # NVFP4: an 8-bit scale for each 16
    "mxfp4": 0.5 + 1.0 / 32,  # OCP Microscaling Formats 1.0: an 8-bit scale for each 32
    "int4": 0.5 + SCALE_BYTES,
}
"""Bytes of one weight of a linear layer, scales included."""

KV_BYTES = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 * SCALE_BYTES,  # scale and zero point of each head of 128 (LMDeploy, KV cache quantisation)
}
"""Bytes of one element of the KV cache, scales included."""

WEIGHT_ONLY = ("int8", "int4", "mxfp4")
"""Precisions of stored weights that no kernel computes in."""

EXPERTS_ONLY = ("fp4", "mxfp4", "int4")
"""Precisions in which only the routed experts of a mixture are stored: so are gpt-oss (mxfp4), Kimi K2.5 (int4) and
NVIDIA's DeepSeek and Qwen3 in NVFP4, by their model cards."""

HALF = ("bf16", "fp16")


def half_of(dtypes: Container[str]) -> str:
    """The 16-bit compute dtype of a GPU; fp32 if there is none."""
    return next((name for name in HALF if name in dtypes), "fp32")


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per element of stored and moved data, and names of dtypes.

    Args:
        compute: Dtype of the matrix products of layers; ``weight_only`` for products in 16 bit with weights that are
            stored in fewer bits.
        weight_bytes: Bytes of a weight.
        activation_bytes: Bytes of an element handed from kernel to kernel.
        kv_bytes: Bytes of an element of the KV cache.
        plain_compute: Dtype of everything else, such as the head and attention; None for `compute`.
        plain_weight_bytes: Bytes of a weight outside the linear layers: tables, norms, the head; None for
            `weight_bytes`.
        experts_only: Whether all layers except routed experts are outside, too.
        plain_operators: Names of linear layers that are outside, too.
        quantized_head: Whether the head is stored like the linear layers.
    """

    compute: str = "bf16"
    weight_bytes: float = 2.0
    activation_bytes: float = 2.0
    kv_bytes: float = 2.0
    plain_compute: str | None = None
    plain_weight_bytes: float | None = None
    experts_only: bool = False
    plain_operators: frozenset[str] = frozenset()
    quantized_head: bool = False

    def bytes_per_weight(self, operator: Operator) -> float:
        """Bytes of one of the operator's weights; quantisation leaves embedding, norms and head alone."""
        if self.plain_weight_bytes is None or self._quantised(operator):
            return self.weight_bytes
        return self.plain_weight_bytes

    def dtype(self, operator: Operator) -> str:
        """Return the dtype in which an operator computes."""
        return self.compute if self.plain_compute is None or self._quantised(operator) else self.plain_compute

    def _quantised(self, operator: Operator) -> bool:
        if operator.is_head:
            return self.quantized_head
        outside = (self.experts_only and operator.experts == 1) or operator.name in self.plain_operators
        return is_linear(operator) and not outside


def is_linear(operator: Operator) -> bool:
    """Whether it is a linear layer that quantisation applies to: a matrix product that yields no logits."""
    return operator.kind is OperatorKind.GEMM and not operator.is_head


def checkpoint_precision(quantization: Quantization, kv: str, half: str, peaks: Mapping[str, float]) -> Precision:
    """The precision of an engine that serves a quantised checkpoint as it is.

    Args:
        quantization: How the checkpoint stores weights.
        kv: Of the KV cache, a key of `KV_BYTES`.
        half: The 16-bit dtype that the GPU has.
        peaks: FLOP/s of the GPU by dtype. Weights in a dtype that it does not compute in are computed with in 16 bit,
            as by the Marlin kernels of vLLM (docs, FP8 W8A8: GPUs of the Ampere generation).
    """
    compute = "weight_only"
    if quantization.compute == INT8_ARITHMETIC:
        compute = "int8" if peaks.get("int8", 0.0) > peaks[half] else compute
    elif not quantization.compute and quantization.weights not in WEIGHT_ONLY and quantization.weights in peaks:
        compute = quantization.weights
    return Precision(
        compute,
        quantization.weight_bytes,
        2.0,
        KV_BYTES[kv],
        plain_compute=half,
        plain_weight_bytes=2.0,
        plain_operators=quantization.unquantized,
        quantized_head=quantization.quantized_head,
    )


def serving_precision(
    weights: str, kv: str, half: str, *, computes: bool = True, experts_only: bool = False
) -> Precision:
    """The precision of a serving engine.

    Args:
        weights: Precision of linear layers, a key of `WEIGHT_BYTES`.
        kv: Precision of the KV cache, a key of `KV_BYTES`.
        half: The 16-bit dtype of the GPU, for operators that are not computed in the precision of the weights.
        computes: True if the GPU computes in the precision of the weights.
        experts_only: True if only routed experts are quantised.
    """
    if weights in ("fp32", *HALF):
        size = WEIGHT_BYTES[weights]
        return Precision(weights, size, size, KV_BYTES[kv])
    compute = "weight_only" if weights in WEIGHT_ONLY or not computes else weights
    return Precision(
        compute,
        WEIGHT_BYTES[weights],
        2.0,
        KV_BYTES[kv],
        plain_compute=half,
        plain_weight_bytes=2.0,
        experts_only=experts_only,
    )
