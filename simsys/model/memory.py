"""What a rank of a serving replica holds in device memory, by component."""

from __future__ import annotations

from simsys.model.model import Model
from simsys.model.work import FP32_BYTES, Precision


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
