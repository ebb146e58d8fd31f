"""Names of repositories: the model without tuning and quantisation, and how its weights are stored."""

from __future__ import annotations

import pytest

from simsys.model.model_db import load_model
from simsys.model.repository_names import quantised_name, spellings

STORED = {
    "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8": ("Llama-3.1-70B", "fp8", ""),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("Llama-3.1-70B", "fp8", ""),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": ("Qwen3-235B-A22B", "fp8_block", ""),
    "amd/Llama-3.1-70B-Instruct-FP8-KV": ("Llama-3.1-70B", "fp8", "fp8"),
    "nvidia/Llama-3.1-405B-Instruct-FP4": ("Llama-3.1-405B", "fp4", "fp8"),
    "Qwen/Qwen2.5-72B-Instruct-AWQ": ("Qwen2.5-72B", "int4", ""),
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4": ("Llama-3.1-8B", "int4", ""),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8": ("Qwen2.5-7B", "int8", ""),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": ("Llama-3.1-8B", "int4", ""),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": ("Llama-3.1-8B", "int8", ""),
}


@pytest.mark.parametrize("name", STORED)
def test_the_name_of_a_quantisation_says_how_weights_are_stored(name: str) -> None:
    model, weights, kv = STORED[name]
    found = load_model(name)
    assert found.name == model
    assert found.quantization is not None
    assert (found.quantization.weights, found.quantization.kv, found.quantization.problem) == (weights, kv, "")
    assert found.notes[-1] == f"precision as the name {name} says"
    assert found.parameters == load_model(model).parameters


def test_integers_with_integer_activations_are_computed_with_in_integers() -> None:
    both = load_model("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8").quantization
    weights = load_model("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8").quantization
    assert both is not None
    assert weights is not None
    assert (both.compute, weights.compute) == ("int8", "half")


def test_a_name_of_the_model_db_counts_before_a_quantisation() -> None:
    assert quantised_name("Llama-3.1-8B") is None
    assert load_model("Llama-3.1-8B").quantization is None
    assert list(spellings("a/B-Instruct-2507"))[-1] == "B"
