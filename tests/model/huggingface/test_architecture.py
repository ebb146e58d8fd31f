"""Sizes of language models: what they are called, what is missing, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.model.huggingface import read_checkpoint
from simsys.model.transformer_architecture import TransformerArchitecture
from tests.helpers.published_configs import BART, FALCON, GEMMA_3_27B, GPT2, KIMI_K2, LLAMA_3_1_8B, Config

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def read(config: Config, **changes: Any) -> TransformerArchitecture:
    return read_checkpoint(config | changes).architecture


def test_an_explicit_head_size_counts() -> None:
    assert read(LLAMA_3_1_8B, head_dim=96).head_size == 96


def test_the_head_size_of_latent_attention_has_both_parts() -> None:
    assert read(KIMI_K2).head_size == read(KIMI_K2, head_dim=64).head_size == 192


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 131072),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 262144),
        ({"max_position_embeddings": 32768, "rope_scaling": YARN}, 131072),
        ({"max_position_embeddings": 131072, "rope_scaling": YARN}, 131072),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}}, 262144),
    ],
)
def test_scaled_positions_lengthen_the_context(changes: Config, tokens: int) -> None:
    assert read(LLAMA_3_1_8B, **changes).max_context_tokens == tokens


def test_the_context_of_gemma_3_contains_its_factor() -> None:
    assert read(GEMMA_3_27B).max_context_tokens == 131072


def test_a_size_may_have_several_names_that_say_the_same() -> None:
    assert read(GPT2).num_layers == 12
    both = read_checkpoint(LLAMA_3_1_8B | {"n_layer": 32})
    assert both.warnings == ()
    other = read_checkpoint(LLAMA_3_1_8B | {"n_layer": 16})
    assert other.architecture.num_layers == 32
    assert other.warnings == ("ignored a key that simsys does not know: n_layer",)


def test_one_key_and_value_head_for_all_queries() -> None:
    assert read(FALCON).num_key_value_heads == 1
    newer = {"new_decoder_architecture": True, "num_kv_heads": 71}
    assert read(FALCON, **newer).num_key_value_heads == 71


def test_an_activation_says_whether_an_unknown_mlp_is_gated() -> None:
    t5 = {"feed_forward_proj": "gated-gelu", "model_type": "t5", "decoder_layers": None}
    assert read(LLAMA_3_1_8B | t5).gated_mlp
    assert not read(LLAMA_3_1_8B | t5 | {"feed_forward_proj": "relu"}).gated_mlp


def test_a_decoder_must_be_as_wide_as_its_encoder() -> None:
    with pytest.raises(ConfigError, match="decoder_ffn_dim: 2048 differs from encoder_ffn_dim 4096"):
        read(BART, decoder_ffn_dim=2048)


def test_all_missing_keys_are_named() -> None:
    with pytest.raises(ConfigError, match=r"missing num_hidden_layers, hidden_size, vocab_size$"):
        read({"model_type": "llama", "num_attention_heads": 8, "intermediate_size": 64})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "4096"}, "hidden_size: expected a number"),
        ({"hidden_size": 4095}, "not a multiple of 32 heads"),
        ({"hidden_size": 10**400}, "hidden_size: expected a number of at most 1e.100, got one of 401 digits"),
        ({"hidden_size": 10**9}, "hidden_size: must be at most 100,000,000, not 1,000,000,000"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected a finite number >= 1"),
        ({"num_hidden_layers": 1.5}, "expected an integer"),
        ({"num_hidden_layers": 3_000_000}, "num_hidden_layers: must be at most 10,000, not 3,000,000"),
        ({"vocab_size": float("nan")}, "vocab_size: expected a finite number"),
        ({"num_attention_heads": True}, "num_attention_heads: expected a number, got True"),
        ({"kv_lora_rank": 512}, "missing qk_nope_head_dim, qk_rope_head_dim, v_head_dim"),
        ({"tie_word_embeddings": "no"}, "expected true or false"),
        ({"num_key_value_heads": 5}, "multiple of num_key_value_heads"),
        ({"rope_scaling": "yarn"}, "rope_scaling: expected a mapping, got 'yarn'"),
        (
            {"rope_scaling": {"type": "linear", "factor": 1e9}},
            r"rope_scaling.factor: 1e\+09 times 131,072 tokens are too",
        ),
    ],
)
def test_a_wrong_configuration_is_refused(changes: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(LLAMA_3_1_8B, **changes)
