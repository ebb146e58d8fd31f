"""What a rank of a serving replica holds, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from simsys.config.architectures import listed_architectures
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision
from simsys.parallel.passes import forward_pass
from simsys.parallel.replica import replica_stages
from simsys.parallel.segments import Experts
from simsys.parallel.serving_memory import head_columns, kv_bytes_per_token, serving_memory, weight_bytes

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
LLAMA, MIXTRAL, DEEPSEEK = (build_transformer(BY_NAME[name]) for name in ("Llama3-8B", "Mixtral-8x7B", "DeepSeek-V3"))
GPT = build_transformer(gpt_architecture("toy", num_layers=4, hidden_size=512, num_attention_heads=8, vocab_size=1000))
HALF = Precision()


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_a_cached_token_needs_keys_and_values_of_the_heads_of_the_rank_in_every_layer(tensor: int, heads: int) -> None:
    assert kv_bytes_per_token(forward_pass(LLAMA, tensor), HALF) == 32 * 2 * heads * 128 * 2


def test_latent_keys_and_values_are_on_every_rank() -> None:
    for tensor in (1, 8):
        assert kv_bytes_per_token(forward_pass(DEEPSEEK, tensor), HALF) == 61 * (512 + 64) * 2


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_weights_are_divided_except_the_norms(tensor: int) -> None:
    norms = 65 * 4096 * 2
    expected = (LLAMA.parameters * 2 - norms) / tensor + norms
    assert weight_bytes(forward_pass(LLAMA, tensor), HALF) == pytest.approx(expected)


def test_tied_embeddings_are_stored_once_where_both_ends_are_on_one_rank() -> None:
    table = 1000 * 512 * 2
    assert weight_bytes(forward_pass(GPT), HALF, tied=True) == 2 * GPT.parameters
    first, last = replica_stages(GPT, stages=2)
    both = sum(weight_bytes(stage, HALF, tied=True) for stage in (first, last))
    assert both == 2 * GPT.parameters + table


def test_the_activation_peak_is_the_widest_operator_and_the_logits() -> None:
    held = serving_memory(forward_pass(LLAMA), HALF, max_batched_tokens=2048, max_num_seqs=256, context_bytes=1e9)
    gate_up = 4096 + 2 * 14336
    activation = 3 * 14336
    assert held["activations"] == 2048 * max(gate_up, activation) * 2 + 256 * 128_256 * 4
    assert held["context"] == 1e9
    assert set(held) == {"weights", "activations", "context"}


def test_only_the_last_stage_has_logits() -> None:
    stages = replica_stages(LLAMA, tensor=2, stages=4)
    assert [head_columns(stage) for stage in stages] == [0, 0, 0, 64_128]
    whole = kv_bytes_per_token(forward_pass(LLAMA, 2), HALF)
    assert [kv_bytes_per_token(stage, HALF) for stage in stages] == [whole / 4] * 4


def test_whole_experts_take_as_much_memory_as_parts_of_all() -> None:
    parts = forward_pass(MIXTRAL, 8)
    for sequence_parallel in (False, True):
        whole = forward_pass(MIXTRAL, 8, sequence_parallel, experts=Experts(8, 2.0, over_tensor=True))
        assert weight_bytes(whole, HALF) == pytest.approx(weight_bytes(parts, HALF))
