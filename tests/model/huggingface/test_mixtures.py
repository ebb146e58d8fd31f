"""Experts and the layers that have them, in the ways that families write it."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.model.huggingface import read_checkpoint
from tests.helpers.published_configs import DEEPSEEK_V3, LLAMA_3_1_8B, PUBLISHED, Config, decoder, llama4

QWEN3_MOE = decoder(
    *("qwen3_moe", "Qwen3MoeForCausalLM", 6, 64, 4, 4, 256, 100, 4096),
    head_dim=16,
    moe_intermediate_size=32,
    num_experts=8,
    num_experts_per_tok=2,
)
ERNIE = decoder(
    *("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", 6, 64, 4, 4, 256, 100, 4096),
    moe_intermediate_size=32,
    moe_num_experts=8,
    moe_k=2,
    moe_num_shared_experts=2,
)


def dense(config: Config, **changes: Any) -> tuple[int, int]:
    """Dense layers: the first ones, and those between others."""
    read = read_checkpoint(config | changes).architecture
    return read.dense_layers_first, read.dense_layers_between


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (0, 0)),
        ({"mlp_only_layers": [0, 1]}, (2, 0)),
        ({"mlp_only_layers": [0, 3]}, (1, 1)),
        ({"decoder_sparse_step": 2}, (1, 2)),
        ({"first_k_dense_replace": 2}, (2, 0)),
        ({"moe_layer_freq": 2}, (0, 3)),
        ({"moe_layer_freq": [0, 1, 1, 1, 0, 1]}, (1, 1)),
        ({"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4, "first_k_dense_replace": 1}, (2, 0)),
        ({"moe_layers": [1, 3, 5]}, (1, 2)),
        ({"interleave_moe_layer_step": 3}, (2, 2)),
    ],
)
def test_dense_layers_between_experts(changes: Config, expected: tuple[int, int]) -> None:
    assert dense(QWEN3_MOE, **changes) == expected


def test_ernie_says_where_experts_begin_and_end() -> None:
    assert dense(ERNIE, moe_layer_start_index=1, moe_layer_end_index=-1, moe_layer_interval=1) == (1, 0)
    assert dense(ERNIE, moe_layer_start_index=[1, 1], moe_layer_end_index=[4, 4]) == (1, 1)
    assert read_checkpoint(ERNIE).architecture.shared_experts == 2


def test_every_second_layer_of_maverick_is_dense() -> None:
    scout, maverick = (read_checkpoint(llama4(*each)).architecture for each in ((16, 1), (128, 2)))
    assert scout.dense_layers == 0
    assert maverick.dense_layers == 24
    assert (maverick.intermediate_size, maverick.expert_intermediate_size, maverick.shared_experts) == (16384, 8192, 1)


def test_a_mixture_without_experts_in_any_layer_is_dense() -> None:
    assert read_checkpoint(QWEN3_MOE | {"mlp_only_layers": list(range(6))}).architecture.experts == 1
    assert read_checkpoint(LLAMA_3_1_8B | {"num_local_experts": 1}).architecture.experts == 1


def test_a_shared_expert_given_by_width_is_a_multiple_of_a_routed_one() -> None:
    config = QWEN3_MOE | {"shared_expert_intermediate_size": 96}
    assert read_checkpoint(config).architecture.shared_experts == 3
    with pytest.raises(
        ConfigError, match="shared_expert_intermediate_size: 97 is not a multiple of the experts' width"
    ):
        read_checkpoint(config | {"shared_expert_intermediate_size": 97})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_experts_per_tok": None}, "missing num_experts_per_tok"),
        ({"num_experts_per_tok": 9}, r"experts_per_token \(9\) exceeds experts \(8\)"),
        ({"num_experts": "8"}, "num_experts: expected a number"),
        ({"mlp_layer_types": ["sparse"]}, "mlp_layer_types: lists 1 layers, but the model has 6"),
        ({"moe_layer_freq": [1]}, "moe_layer_freq: lists 1 layers"),
        ({"mlp_only_layers": 3}, "mlp_only_layers: expected a list of integers, got 3"),
        ({"moe_intermediate_size": 0}, "moe_intermediate_size: expected a finite number >= 1"),
    ],
)
def test_what_does_not_fit_is_refused(changes: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_checkpoint(QWEN3_MOE | changes)


def test_experts_per_token_may_be_called_otherwise() -> None:
    renamed = {key: value for key, value in QWEN3_MOE.items() if key != "num_experts_per_tok"}
    assert read_checkpoint(renamed | {"num_experts_per_token": 4}).architecture.experts_per_token == 4
    assert read_checkpoint(PUBLISHED["gpt-oss-20b"].config).warnings == ()
    assert read_checkpoint(DEEPSEEK_V3).architecture.dense_layers_first == 3
