"""Transformer-XL: what its memory and its adaptive softmax change."""

from __future__ import annotations

import pytest

from simsys.model.operators import OperatorKind
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.transformer_xl import ADAPTIVE, with_segment_memory

PLAIN = build_transformer(gpt_architecture("plain", num_layers=2, hidden_size=64, num_attention_heads=4))
XL = with_segment_memory(PLAIN)


def test_attention_goes_over_two_segments_with_three_products() -> None:
    plain, memory = (
        next(op for op in model.blocks[1].operators if op.kind is OperatorKind.ATTENTION) for model in (PLAIN, XL)
    )
    assert memory.flop_per_pair == 3 * plain.flop_per_pair


def test_keys_and_values_are_made_of_both_segments() -> None:
    plain, memory = (next(op for op in model.blocks[1].operators if op.name == "qkv") for model in (PLAIN, XL))
    assert memory.flop_per_token / plain.flop_per_token == pytest.approx(5 / 3)  # queries of one


def test_few_columns_of_the_head_are_computed_and_all_are_stored() -> None:
    plain, adaptive = (model.blocks[-1].operators[-1] for model in (PLAIN, XL))
    assert adaptive.flop_per_token == pytest.approx(ADAPTIVE * plain.flop_per_token)
    assert XL.parameters == PLAIN.parameters


def test_equal_layers_remain_one_object() -> None:
    assert XL.blocks[1] is XL.blocks[2]
