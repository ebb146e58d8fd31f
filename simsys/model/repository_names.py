"""Names of repositories of Hugging Face: what they add to the name of a model.

A tuning leaves the layers as they are. A quantisation says how the weights are stored; the configurations are those
that the owners' tools write, as read from the cards of their collections (LLM Compressor of Red Hat, ModelOpt of
NVIDIA, AutoAWQ, GPTQModel, and the block-wise FP8 of Qwen).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Configuration: TypeAlias = Mapping[str, Any]

TUNINGS = re.compile(r"[-_](instruct|thinking|chat|it|hf|base)(?=$|-v\d)|-\d{4}$", re.IGNORECASE)
"""Parts of names of repositories: trained further, released in another month, or stored in another way, with the same
layers."""
_LINEAR = {"targets": ["Linear"]}
_INT8: Configuration = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {
            **_LINEAR,
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
            "input_activations": {"num_bits": 8, "type": "int", "strategy": "token"},
        }
    },
}
_FP8: Configuration = {"quant_method": "fp8"}
_BLOCK: Configuration = {"quant_method": "fp8", "weight_block_size": [128, 128]}
QUANTISED: tuple[tuple[re.Pattern[str], Configuration], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), configuration)
    for pattern, configuration in (
        (r"^qwen/(.+)[-_.]fp8$", _BLOCK),
        (r"^nvidia/(.+)[-_.]fp8$", {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}),
        (r"(.+)[-_.]fp8-kv$", {**_FP8, "kv_cache_quant_algo": "FP8"}),
        (r"(.+)[-_.]fp8(?:-dynamic|-block)?$", _FP8),
        (r"^nvidia/(.+)[-_.]fp4$", {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}),
        (r"(.+)[-_.]nvfp4$", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        (r"(.+)[-_.]awq(?:[-_]int4)?$", {"quant_method": "awq", "bits": 4, "group_size": 128}),
        (r"(.+)[-_.]gptq[-_]int8$", {"quant_method": "gptq", "bits": 8, "group_size": 128}),
        (r"(.+)[-_.]gptq(?:[-_]int4)?$", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        (r"(.+?)[-_.](?:quantized[-_.])?w4a16$", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        (r"(.+?)[-_.](?:quantized[-_.])?w8a8$", _INT8),
    )
)
"""Ends of names, the name without them, and how the weights are then stored; the first that matches counts."""


def spellings(name: str) -> Iterator[str]:
    """A name, without the owner of a repository, and without the tuning.

    Example:
        >>> list(spellings("meta-llama/Llama-3.1-8B-Instruct"))
        ['meta-llama/Llama-3.1-8B-Instruct', 'Llama-3.1-8B-Instruct', 'Llama-3.1-8B']
    """
    yield name
    short = name.rpartition("/")[2]
    yield short
    while (plain := TUNINGS.sub("", short)) != short:
        yield plain
        short = plain


def quantised_name(name: str) -> tuple[str, Configuration] | None:
    """The name without its quantisation, and the ``quantization_config`` that it stands for; None if it has none.

    Example:
        >>> quantised_name("Qwen/Qwen2.5-72B-Instruct-AWQ")
        ('Qwen2.5-72B-Instruct', {'quant_method': 'awq', 'bits': 4, 'group_size': 128})
    """
    for pattern, configuration in QUANTISED:
        if found := pattern.search(name):
            return found[1].rpartition("/")[2], configuration
    return None
