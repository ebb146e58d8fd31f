"""What a rank of a training job holds in device memory, by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simsys.model.work import Batch, Precision
from simsys.parallel.passes import ForwardPass, Stretch
from simsys.parallel.training import Recompute

FP32_BYTES = 4.0
OPTIMIZER_STATES = {"adam": 2, "sgd": 1}
"""Momentum and, for Adam, variance, kept in fp32 (Kingma & Ba 2015)."""
LOGIT_COPIES = 2
"""The loss keeps the logits and their gradient."""


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Among how many data-parallel ranks each model state is divided (Rajbhandari et al. 2020, §5).

    Args:
        weights: All-gathered when needed if more than 1.
        gradients: Reduced to shards as soon as they are there.
        optimizer: Each rank updates its shard of the weights.
        gathered: Of sharded weights, what is whole at the peak: ``"units"`` for two blocks, one that computes and
            one that is gathered meanwhile, or ``"all"``.
    """

    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    gathered: Literal["units", "all"] = "units"


UNSHARDED = Shards()


def training_memory(
    chunks: Sequence[ForwardPass],
    batch: Batch,
    precision: Precision,
    *,
    vocab_size: float = 0.0,
    in_flight: Sequence[int] = (1,),
    recompute: Recompute = Recompute.NONE,
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    context_bytes: float = 0.0,
    shards: Shards = UNSHARDED,
) -> dict[str, float]:
    """Bytes that one rank needs, by component.

    Model states are those of mixed-precision Adam, 16 bytes per parameter with fp32 gradients (Rajbhandari et
    al. 2020, §3.1, without the transient 16-bit copies); activations follow Korthikanti et al. 2022, table 2.
    With recomputation the block whose backward pass runs holds what the others do not keep.

    Args:
        chunks: The rank's share of each chunk of layers that its pipeline stage holds.
        batch: One micro-batch; attention scores are kept if its attention is not fused.
        precision: What activations are kept in.
        vocab_size: The rank's share of the vocabulary; counted if the stage has the head.
        in_flight: For each chunk, micro-batches whose activations are kept at the peak.
        recompute: What is computed again in the backward pass, and so not kept.
        optimizer: A key of `OPTIMIZER_STATES`.
        tied_parameters: Weights that stand in two blocks of the stage but are stored once.
        context_bytes: What the runtime and its libraries take.
        shards: How model states are divided among data-parallel ranks.
    """
    parameters = sum(chunk.parameters for chunk in chunks) - tied_parameters
    stretches = [(kept, stretch) for kept, chunk in zip(in_flight, chunks, strict=True) for stretch in chunk.stretches]
    kept_elements = sum(kept * s.repeat * activation_elements(s, batch, recompute) for kept, s in stretches)
    kept_elements += batch.tokens * sum(
        kept * chunk.shared_elements_per_token for kept, chunk in zip(in_flight, chunks, strict=True)
    )
    made_again = max(
        0.0, *(activation_elements(s, batch) - activation_elements(s, batch, recompute) for _, s in stretches)
    )
    logits = vocab_size * batch.logits if any(chunk.has_head for chunk in chunks) else 0.0
    states = _model_states(parameters, precision, OPTIMIZER_STATES[optimizer], shards)
    if shards.weights > 1:
        states["gathered"] = _gathered(chunks, parameters, precision, shards)
    return {
        **states,
        "activations": (kept_elements + made_again) * precision.activation_bytes,
        "logits": logits * FP32_BYTES * LOGIT_COPIES,
        "context": context_bytes,
    }


def activation_elements(stretch: Stretch, batch: Batch, recompute: Recompute = Recompute.NONE) -> float:
    """Elements that a rank keeps of one block and one micro-batch until its backward pass."""
    if recompute is Recompute.FULL and stretch.checkpointed:
        return stretch.input_elements_per_token * batch.tokens + stretch.input_elements_per_logit * batch.logits
    elements = stretch.activation_elements_per_token * batch.tokens
    elements += stretch.activation_elements_per_logit * batch.logits
    if batch.unfused_attention and recompute is Recompute.NONE:
        elements += sum(
            operator.kept_elements_per_pair * batch.pairs(operator.pairs) for operator in stretch.operators
        )
    return elements


def _model_states(parameters: float, precision: Precision, states: int, shards: Shards) -> dict[str, float]:
    """Weights, gradients and optimizer states of one rank, in bytes.

    If the optimizer is divided further than the weights, as in ZeRO-1 and -2, every rank holds the weights in the
    precision it computes in, and the fp32 weights are one more state of the optimizer.
    """
    weight_bytes = FP32_BYTES
    if shards.optimizer > shards.weights and precision.weight_bytes < FP32_BYTES:
        weight_bytes, states = precision.weight_bytes, states + 1
    return {
        "parameters": parameters * weight_bytes / shards.weights,
        "gradients": parameters * FP32_BYTES / shards.gradients,
        "optimizer": parameters * states * FP32_BYTES / shards.optimizer,
    }


def _gathered(chunks: Sequence[ForwardPass], parameters: float, precision: Precision, shards: Shards) -> float:
    """Bytes of weights that are whole for a while, and of one block's gradients before they are scattered."""
    stretches = (stretch for chunk in chunks for stretch in chunk.stretches)
    largest = max(sum(operator.parameters for operator in stretch.operators) for stretch in stretches)
    whole = parameters if shards.gathered == "all" else min(2 * largest, parameters)
    unscattered = largest * FP32_BYTES if shards.gradients > 1 else 0.0
    return whole * precision.weight_bytes + unscattered
