"""Which layers have windows or linear attention, in the ways that families write it."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.model.description import is_sparse
from simsys.model.huggingface import read_checkpoint
from simsys.model.transformer import build_transformer
from tests.helpers.published_configs import (
    DEEPSEEK_V3,
    GEMMA_2_9B,
    LLAMA_3_1_8B,
    MINIMAX_TEXT_01,
    MISTRAL_7B,
    PUBLISHED,
    QWEN3_8B,
    QWEN3_NEXT,
    Config,
    llama4,
)


def windows(config: Config, **changes: Any) -> tuple[int, int]:
    """Layers with windows, and how long these are."""
    read = read_checkpoint(config | changes).architecture
    return read.window_layers, read.sliding_window


@pytest.mark.parametrize(
    ("name", "layers", "window"),
    [
        ("Mistral-7B", 32, 4096),
        ("gemma-2-9b", 21, 4096),
        ("gemma-3-27b-it", 52, 1024),
        ("gpt-oss-120b", 18, 128),
        ("Llama-4-Scout", 36, 8192),
        ("Mixtral-8x7B", 0, 0),
        ("Qwen3-8B-FP8", 0, 0),
        ("Qwen2.5-VL-7B", 0, 0),
    ],
)
def test_windows_of_published_models(name: str, layers: int, window: int) -> None:
    assert windows(PUBLISHED[name].config) == (layers, window)


@pytest.mark.parametrize(("name", "layers", "of"), [("Qwen3-Next-80B-A3B", 36, 48), ("MiniMax-Text-01", 70, 80)])
def test_linear_attention_of_published_models(name: str, layers: int, of: int) -> None:
    read = read_checkpoint(PUBLISHED[name].config).architecture
    assert (read.linear_layers, read.num_layers) == (layers, of)


def test_heads_of_linear_attention_are_their_own_or_those_of_attention() -> None:
    own, lightning = (read_checkpoint(config).architecture for config in (QWEN3_NEXT, MINIMAX_TEXT_01))
    assert (own.linear_key_heads, own.linear_value_heads, own.linear_head_size) == (16, 32, 128)
    assert (lightning.linear_key_heads, lightning.linear_value_heads, lightning.linear_head_size) == (64, 64, 128)


def test_listed_layers_count_before_what_the_family_implies() -> None:
    listed = ["full_attention"] * 20 + ["sliding_attention"] * 22
    assert windows(GEMMA_2_9B, layer_types=listed) == (22, 4096)
    assert windows(GEMMA_2_9B, layer_types=["full_attention"] * 42) == (0, 0)


def test_a_window_as_long_as_the_context_limits_nothing() -> None:
    assert windows(MISTRAL_7B, max_position_embeddings=4096) == (0, 0)
    assert windows(MISTRAL_7B, sliding_window=None) == (0, 0)


def test_qwen_has_windows_only_if_it_says_so() -> None:
    assert windows(QWEN3_8B, sliding_window=4096) == (0, 0)
    assert windows(QWEN3_8B, sliding_window=4096, use_sliding_window=True, max_window_layers=28) == (8, 4096)


def test_a_window_that_a_family_does_not_have_is_named() -> None:
    read = read_checkpoint(LLAMA_3_1_8B | {"sliding_window": 4096})
    assert read.architecture.window_layers == 0
    assert read.warnings == ("ignored a key that simsys does not know: sliding_window",)


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [({}, 24), ({"sliding_window_pattern": 2}, 16), ({"sliding_window_pattern": "LLLLLLLG"}, 28)],
)
def test_patterns_are_periods_or_letters(pattern: Config, layers: int) -> None:
    config = LLAMA_3_1_8B | {"model_type": "exaone4", "sliding_window": 512, **pattern}
    assert windows(config) == (layers, 512)


def test_llama_4_lists_the_layers_without_rotary_positions() -> None:
    config = llama4(16, 1)
    config["text_config"]["no_rope_layers"] = [1, 0] * 24
    assert windows(config) == (24, 8192)
    config["text_config"]["attention_chunk_size"] = None
    assert windows(config) == (0, 0)


SPARSE = {"model_type": "deepseek_v32", "index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128}


def test_sparse_attention_has_an_indexer_and_keeps_all_keys() -> None:
    found = read_checkpoint(DEEPSEEK_V3 | SPARSE)
    assert found.warnings == ()
    dense, sparse = build_transformer(read_checkpoint(DEEPSEEK_V3).architecture), build_transformer(found.architecture)
    assert (is_sparse(dense), is_sparse(sparse)) == (False, True)
    layers = dense.num_layers
    weights = 1536 * 64 * 128 + 7168 * (128 + 64)
    assert sparse.parameters - dense.parameters == layers * weights
    assert sparse.kv_elements_per_token - dense.kv_elements_per_token == layers * 128


def test_sparse_attention_without_latent_attention_is_named() -> None:
    (warning,) = read_checkpoint(LLAMA_3_1_8B | {"index_topk": 2048}).warnings
    assert warning.startswith("sparse attention to 2,048 tokens (index_topk) without latent attention")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention"] * 3}, "layer_types: lists 3 layers, but the model has 32"),
        ({"layer_types": ["mamba"] * 32}, "layer_types: layers of kind 'mamba' are not modelled"),
        ({"layer_types": "full"}, "layer_types: expected a list of strings, got 'full'"),
        ({"layer_types": [None] * 32}, "layer_types: expected a list of strings"),
        ({"attn_type_list": [1, 0]}, "attn_type_list: lists 2 layers"),
        ({"attn_type_list": [True] * 32}, "attn_type_list: expected a list of integers"),
    ],
)
def test_lists_must_say_something_of_every_layer(changes: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_checkpoint(LLAMA_3_1_8B | changes)


def test_windows_and_linear_attention_in_one_model_are_refused() -> None:
    mixed = ["sliding_attention", "linear_attention", "full_attention", "full_attention"] * 12
    with pytest.raises(ConfigError, match="windows and linear attention in one model are not modelled"):
        read_checkpoint(QWEN3_NEXT | {"layer_types": mixed, "sliding_window": 128})


def test_heads_of_two_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="linear_value_head_dim: 64 differs from linear_key_head_dim 128"):
        read_checkpoint(QWEN3_NEXT | {"linear_value_head_dim": 64})
