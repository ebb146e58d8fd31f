"""What a rank of a training job holds in device memory, by component."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.model.work import Batch, Precision
from simsys.parallel.passes import ForwardPass

FP32_BYTES = 4.0
OPTIMIZER_STATES = {"adam": 2, "sgd": 1}
"""Momentum and, for Adam, variance, kept in fp32 (Kingma & Ba 2015)."""
LOGIT_COPIES = 2
"""The loss keeps the logits and their gradient."""


def training_memory(
    chunks: Sequence[ForwardPass],
    batch: Batch,
    precision: Precision,
    *,
    vocab_size: float = 0.0,
    in_flight: Sequence[int] = (1,),
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    context_bytes: float = 0.0,
) -> dict[str, float]:
    """Bytes that one rank needs, by component.

    Model states are those of mixed-precision Adam, 16 bytes per parameter with fp32 gradients (Rajbhandari et
    al. 2020, §3.1, without the transient 16-bit copies); activations follow Korthikanti et al. 2022, §4, with
    fused attention, whose scores are not kept.

    Args:
        chunks: The rank's share of each chunk of layers that its pipeline stage holds.
        batch: One micro-batch.
        precision: What activations are kept in.
        vocab_size: The rank's share of the vocabulary; counted if the stage has the head.
        in_flight: For each chunk, micro-batches whose activations are kept at the peak.
        optimizer: A key of `OPTIMIZER_STATES`.
        tied_parameters: Weights that stand in two blocks of the stage but are stored once.
        context_bytes: What the runtime and its libraries take.
    """
    parameters = sum(chunk.parameters for chunk in chunks) - tied_parameters
    elements = sum(kept * chunk.activation_elements_per_token for kept, chunk in zip(in_flight, chunks, strict=True))
    logits = vocab_size * batch.logits if any(chunk.has_head for chunk in chunks) else 0.0
    return {
        "parameters": parameters * FP32_BYTES,
        "gradients": parameters * FP32_BYTES,
        "optimizer": parameters * OPTIMIZER_STATES[optimizer] * FP32_BYTES,
        "activations": elements * batch.tokens * precision.activation_bytes,
        "logits": logits * FP32_BYTES * LOGIT_COPIES,
        "context": context_bytes,
    }
