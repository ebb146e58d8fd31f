"""What a rank holds in device memory, by component."""

from __future__ import annotations

from simsys.model.work import Batch, Model, Precision

FP32_BYTES = 4.0
ADAM_STATES = 2
"""Momentum and variance, kept in fp32 (Kingma & Ba 2015)."""
OPTIMIZER_STATES = {"adam": ADAM_STATES, "sgd": 1}
LOGIT_COPIES = 2
"""The loss keeps the logits and their gradient."""


def training_memory(
    model: Model,
    batch: Batch,
    precision: Precision,
    *,
    optimizer: str = "adam",
    gradient_bytes_per_parameter: float = FP32_BYTES,
    master_bytes_per_parameter: float = FP32_BYTES,
    bucket_bytes: float = 0.0,
    context_bytes: float = 0.0,
) -> dict[str, float]:
    """Bytes that one data-parallel rank needs, by component.

    Model states are those of mixed-precision Adam, 16 bytes per parameter with fp32 gradients (Rajbhandari et
    al. 2020, §3.1, without the transient 16-bit copies); activations follow Korthikanti et al. 2022, §4.1, with
    fused attention, whose scores are not kept.

    Args:
        model: The model.
        batch: One micro-batch.
        precision: What activations are kept in.
        optimizer: A key of `OPTIMIZER_STATES`.
        gradient_bytes_per_parameter: Bytes of each gradient.
        master_bytes_per_parameter: Bytes of each stored weight.
        bucket_bytes: Communication buffers.
        context_bytes: What the runtime and its libraries take.
    """
    activation_elements = sum(block.activation_elements_per_token for block in model.blocks) * batch.tokens
    return {
        "parameters": model.parameters * master_bytes_per_parameter,
        "gradients": model.parameters * gradient_bytes_per_parameter,
        "optimizer": model.parameters * OPTIMIZER_STATES[optimizer] * FP32_BYTES,
        "activations": activation_elements * precision.activation_bytes,
        "logits": model.vocab_size * batch.logits * FP32_BYTES * LOGIT_COPIES,
        "buckets": bucket_bytes,
        "context": context_bytes,
    }


def serving_memory(
    model: Model,
    precision: Precision,
    *,
    tensor_degree: int,
    widest_elements_per_token: float,
    max_batched_tokens: int,
    max_num_seqs: int,
    context_bytes: float,
) -> dict[str, float]:
    """Bytes that one rank of a serving replica needs besides the KV cache, by component.

    The activation peak is that of a full step: input and output of the widest operator, and the fp32 logits of
    the sampled sequences.

    Args:
        model: The model.
        precision: What weights and activations are stored in.
        tensor_degree: Ranks that share the model.
        widest_elements_per_token: Elements that one rank's widest operator reads and writes for each token.
        max_batched_tokens: Tokens of a full step.
        max_num_seqs: Sequences sampled in a step.
        context_bytes: What the runtime and its libraries take.
    """
    logits = model.vocab_size * max_num_seqs * FP32_BYTES
    return {
        "weights": model.parameters * precision.weight_bytes / tensor_degree,
        "activations": widest_elements_per_token * max_batched_tokens * precision.activation_bytes
        + logits / tensor_degree,
        "context": context_bytes,
    }


def kv_bytes_per_token(model: Model, precision: Precision, tensor_degree: int) -> float:
    """KV-cache bytes that each rank keeps per token of context; heads are replicated beyond one rank per head."""
    shards = min(tensor_degree, model.num_key_value_heads or tensor_degree)
    return model.kv_elements_per_token * precision.kv_bytes / shards
