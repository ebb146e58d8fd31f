"""Keys that change no cost, and those that are named because nothing is known of them."""

from __future__ import annotations

import pytest

from simsys.model.fields import Fields
from simsys.model.huggingface import read_checkpoint
from simsys.model.huggingface.config_keys import GROUPS, HARMLESS, unknown_keys
from tests.helpers.published_configs import LLAMA_3_1_8B, LLAVA_1_5_7B, QWEN3_8B


def test_every_key_stands_in_one_group() -> None:
    assert len(HARMLESS) == sum(len(group.split()) for group in GROUPS)


@pytest.mark.parametrize(
    ("key", "value", "known"),
    [
        ("rope_theta", 10000, True),
        ("eos_token_id", [1, 2], True),
        ("image_token_index", 32000, True),
        ("attention_dropout", 0.0, True),
        ("embd_pdrop", 0.1, True),
        ("_attn_implementation", "flash_attention_2", True),
        ("temperature", 0.6, True),
        ("use_bidirectional_attention", False, True),
        ("use_bidirectional_attention", True, False),
        ("num_memory_layers", 3, False),
        ("num_memory_layers", None, True),
    ],
)
def test_a_key_is_known_or_named(key: str, value: object, known: bool) -> None:
    assert unknown_keys(Fields({key: value})) == ([] if known else [key])


def test_keys_that_were_asked_for_are_known() -> None:
    fields = Fields({"num_memory_layers": 3, "other": 1})
    assert fields.integer("num_memory_layers") == 3
    assert unknown_keys(fields) == ["other"]
    assert unknown_keys(fields, ["other"]) == []


def test_unknown_keys_are_one_warning() -> None:
    warnings = read_checkpoint(QWEN3_8B | {"memory_slots": 64, "per_layer_inputs": 2, "rope_theta": 1e6}).warnings
    assert warnings == ("ignored keys that simsys does not know: memory_slots, per_layer_inputs",)
    assert read_checkpoint(LLAMA_3_1_8B | {"memory_slots": None}).warnings == ()


def test_unknown_keys_are_found_at_both_levels() -> None:
    text = LLAVA_1_5_7B["text_config"] | {"memory_slots": 64}
    warning, _ = read_checkpoint(LLAVA_1_5_7B | {"text_config": text, "vocab_size": 32064, "gate": 1}).warnings, None
    assert warning == ("ignored keys that simsys does not know: memory_slots, gate",)
