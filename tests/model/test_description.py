"""Models in one line."""

from __future__ import annotations

import pytest

from simsys.model.cnn import build_resnet50
from simsys.model.description import (
    described,
    elements_per_sequence,
    head_size,
    layers_with_states,
    layers_with_windows,
)
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.model_db import load_model
from tests.helpers.published_configs import AWQ, DEEPSEEK_V3, MINIMAX_TEXT_01, PUBLISHED, QWEN3_32B, Config


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            QWEN3_32B | {"quantization_config": AWQ},
            "model: Qwen3ForCausalLM (qwen3), 32.8 B parameters, 64 layers, hidden 5120, 64/8 heads of 128, "
            "vocabulary 151,936; published in AWQ, 4 bit in groups of 128",
        ),
        (
            DEEPSEEK_V3,
            "model: DeepseekV3ForCausalLM (deepseek_v3), 671 B parameters (37.6 B active), 61 layers, hidden 7168, "
            "128 heads of 192 with latent attention, 256 experts, 8 a token, vocabulary 129,280; published in FP8 "
            "with a scale for each block of 128 x 128; left out: 1 multi-token-prediction layer (11.6 B parameters), "
            "which engines load for speculative decoding alone",
        ),
        (
            MINIMAX_TEXT_01,
            "model: MiniMaxText01ForCausalLM (minimax_text_01), 456 B parameters (48.4 B active), 80 layers (70 with "
            "linear attention), hidden 6144, 64/8 heads of 128, 32 experts, 2 a token, vocabulary 200,064",
        ),
    ],
)
def test_published_models(config: Config, line: str) -> None:
    assert described(model_of(read_checkpoint(config))) == line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "gpt-oss-20b",
            "model: gpt-oss-20b, 20.9 B parameters (4.19 B active), 24 layers (12 with a window of 128), hidden 2880, "
            "64/8 heads of 64, 32 experts, 4 a token, vocabulary 201,088; published in MXFP4, 4 bit with a scale for "
            "each 32",
        ),
        (
            "GPT2-Small",
            "model: GPT2-Small, 124 M parameters, 12 layers, hidden 768, 12 heads of 64, vocabulary 50,257",
        ),
    ],
)
def test_named_models(name: str, line: str) -> None:
    assert described(load_model(name)) == line


def test_a_network_without_heads() -> None:
    assert described(build_resnet50()) == "model: ResNet-50, 25.6 M parameters, 18 blocks"


def test_kinds_of_layers_are_counted() -> None:
    gemma = model_of(read_checkpoint(PUBLISHED["gemma-3-27b-it"].config))
    assert layers_with_windows(gemma) == {1024: 52}
    assert layers_with_states(gemma) == 0
    assert elements_per_sequence(gemma) == 52 * 1024 * 2 * 16 * 128
    assert elements_per_sequence(gemma) == 52 * 1024 * 2 * 16 * 128
    assert head_size(gemma) == 128
