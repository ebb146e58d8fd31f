"""The shapes at which a machine is measured: those of a model, or of a small transformer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from simsys.build.training import TrainingJob
from simsys.model.operators import OperatorKind

ROWS = (64, 128, 256, 512, 1024, 2048, 4096)
"""Rows (tokens) of measured products."""
MOST_FLOP = 4e10
"""Larger products are not measured on a CPU."""
LARGE_BYTES, MEDIUM_BYTES = 1 << 26, 1 << 24
"""Sizes of buffers: beyond caches, and as of a model's larger tensors."""
WEIGHTS = 1 << 23
"""Weights of the measured update."""


@dataclass(frozen=True)
class Shapes:
    """Sizes of kernels.

    Args:
        products: Inner dimension and columns of weight matrices.
        hidden_size: Width of norms.
        intermediate_size: Width of activation functions.
        gated: Whether activation functions have a gate.
        heads: Attention heads.
        head_size: Width of a head.
        length: Tokens of a sequence.
        batch_size: Sequences of a micro-batch.
        vocab_size: Logits of a token.
        causal: Whether attention is causal.
        layer_norm: Layer norms instead of RMS norms.
    """

    products: tuple[tuple[int, int], ...] = ((384, 1152), (384, 384), (384, 1536), (1536, 384), (384, 4096))
    hidden_size: int = 384
    intermediate_size: int = 1536
    gated: bool = False
    heads: int = 6
    head_size: int = 64
    length: int = 128
    batch_size: int = 8
    vocab_size: int = 4096
    causal: bool = True
    layer_norm: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.batch_size * self.length

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return asdict(self)


def shapes_of(job: TrainingJob) -> Shapes:
    """The shapes of a scenario; those of a small transformer for other models."""
    from simsys.lab.models.sizes import transformer_sizes

    if job.model.family not in ("decoder", "encoder"):
        return Shapes()
    sizes = transformer_sizes(job.model)
    found = [
        (operator.inner, operator.columns)
        for block in job.model.kinds_of_blocks
        for operator in block.operators
        if operator.kind is OperatorKind.GEMM
    ]
    return Shapes(
        tuple(dict.fromkeys(found)),
        sizes.hidden_size,
        sizes.intermediate_size,
        sizes.gated,
        sizes.num_attention_heads,
        sizes.head_size,
        job.sequence_length,
        job.phases[0].batch_size_per_gpu,
        sizes.vocab_size,
        sizes.causal,
        sizes.norm_biases,
    )
