"""What precisions are called in tables of serving runs."""

from __future__ import annotations

import re

from simsys.fidelity.case import Unsupported

WEIGHTS = {
    "fp32": "fp32",
    "float32": "fp32",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "auto": "bf16",
    "fp8": "fp8",
    "int8": "int8",
    "fp4": "fp4",
    "nvfp4": "fp4",
    "mxfp4": "mxfp4",
    "int4": "int4",
}
"""The first of these words in a table's precision is that of the weights."""
EIGHT_BIT_OR_LESS = ("fp8", "fp8_block", "fp4")
"""Weights that come with a KV cache in fp8, where the engine has it so."""


BLOCK_SCALED = ("deepseek-v3", "deepseek-r1", "qwen3", "glm-5", "minimax-m2")
"""Beginnings of models that are published in fp8 with a scale for each block of 128 x 128 (DeepSeek-V3, section 3.3;
`weight_block_size` of the quantization_config of Qwen3 and MiniMax-M2; assumed of GLM-5). Llama in fp8 is NVIDIA's or
Meta's, with a scale for each tensor or channel."""


def precisions(text: str, *, model: str = "", cache_as_weights: bool) -> dict[str, str]:
    """`precision` and `kv_precision` of a serving scenario.

    Args:
        text: As a table has it, such as ``fp8`` or ``bf16 weights, fp8-kv``.
        model: Whose.
        cache_as_weights: Whether weights in 8 bit or less come with a KV cache in fp8.

    Raises:
        Unsupported: No word of it is known.
    """
    words = re.findall(r"[a-z]+\d+|auto|half", text.casefold())
    weights = next((WEIGHTS[word] for word in words if word in WEIGHTS), None)
    if weights is None:
        raise Unsupported(f"precision {text or 'not stated'}")
    if weights == "fp8" and model.startswith(BLOCK_SCALED):
        weights = "fp8_block"
    half = weights if weights in ("fp32", "fp16", "bf16") else "bf16"
    cache = re.search(r"([a-z]+\d+)-kv", text.casefold())
    if cache is not None and cache.group(1) in WEIGHTS:
        return {"precision": weights, "kv_precision": WEIGHTS[cache.group(1)]}
    eight = cache_as_weights and weights in EIGHT_BIT_OR_LESS
    return {"precision": weights, "kv_precision": "fp8" if eight else half}
