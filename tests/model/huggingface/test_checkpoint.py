"""What of a published model is simulated, and what is named because it is not."""

from __future__ import annotations

import pytest

from simsys.errors import ConfigError
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.parallel.passes import forward_pass
from tests.helpers.published_configs import (
    DEEPSEEK_V3,
    GEMMA_3_27B,
    GLM_4_5,
    KIMI_K2_5,
    LLAMA_3_1_8B,
    LLAVA_1_5_7B,
    MINIMAX_M2,
    MISTRAL_7B,
    QWEN2_5_VL_7B,
    QWEN3_8B,
    W4A16,
    Config,
)


def test_keys_that_nested_configurations_leave_out_are_defaults_of_their_type() -> None:
    read = read_checkpoint(LLAVA_1_5_7B)
    assert (read.architecture.num_layers, read.architecture.hidden_size) == (32, 4096)
    assert read.notes[0].startswith("from the defaults of its type, as the file leaves them out: num_hidden_layers, ")
    with pytest.raises(ConfigError, match="missing num_hidden_layers, hidden_size"):
        read_checkpoint(LLAVA_1_5_7B["text_config"])


def test_a_null_is_no_default() -> None:
    text = {"model_type": "mistral", "sliding_window": None}
    assert read_checkpoint(LLAVA_1_5_7B | {"text_config": text}).architecture.window_layers == 0
    text = {"model_type": "mistral"}
    assert read_checkpoint(LLAVA_1_5_7B | {"text_config": text}).architecture.window_layers == 32
    assert read_checkpoint(MISTRAL_7B).notes == ()


def test_tied_embeddings_are_as_the_whole_configuration_says() -> None:
    assert read_checkpoint(GEMMA_3_27B).architecture.tied_embeddings
    assert not read_checkpoint(GEMMA_3_27B | {"tie_word_embeddings": False}).architecture.tied_embeddings
    text = GEMMA_3_27B["text_config"] | {"tie_word_embeddings": False}
    assert not read_checkpoint(GEMMA_3_27B | {"text_config": text}).architecture.tied_embeddings


@pytest.mark.parametrize(("config", "billions"), [(GEMMA_3_27B, 0.423), (QWEN2_5_VL_7B, 0.676)])
def test_a_tower_takes_up_memory_and_is_named(config: Config, billions: float) -> None:
    model = model_of(read_checkpoint(config))
    alone = model_of(read_checkpoint(config | {"vision_config": None}))
    assert model.parameters - alone.parameters == pytest.approx(billions * 1e9, rel=0.02)
    assert model.active_parameters == alone.active_parameters
    assert f"({billions:.3g} B parameters) uses memory" in model.notes[-1]
    assert model.vision is not None
    assert alone.vision is None


def test_a_tower_whose_images_are_not_modelled_is_named() -> None:
    model = model_of(read_checkpoint(KIMI_K2_5))
    assert model.vision is None
    assert model.warnings == (
        "the vision tower kimi_k25 (0.471 B parameters) uses memory, but images for it are not modelled",
    )


def test_ranks_share_a_tower() -> None:
    whole, half = (forward_pass(model_of(read_checkpoint(GEMMA_3_27B)), degree).stretches[0] for degree in (1, 2))
    tower, share = (next(op for op in each.operators if op.name == "vision_tower") for each in (whole, half))
    assert tower.parameters == 2 * share.parameters


@pytest.mark.parametrize(
    ("config", "note"),
    [
        (DEEPSEEK_V3, "1 multi-token-prediction layer (11.6 B parameters)"),
        (GLM_4_5, "1 multi-token-prediction layer (3.99 B parameters)"),
        (MINIMAX_M2, "3 multi-token-prediction layers (11.1 B parameters)"),
    ],
)
def test_layers_that_predict_further_tokens_are_named_with_their_size(config: Config, note: str) -> None:
    model = model_of(read_checkpoint(config))
    assert model.notes == (f"left out: {note}, which engines load for speculative decoding alone",)
    assert model.warnings == ()


def test_without_such_layers_there_is_nothing_to_say() -> None:
    assert model_of(read_checkpoint(MINIMAX_M2 | {"use_mtp": False})).notes == ()
    assert model_of(read_checkpoint(DEEPSEEK_V3 | {"num_nextn_predict_layers": 0})).notes == ()


def test_a_class_without_a_head_is_named() -> None:
    read = read_checkpoint(LLAMA_3_1_8B | {"architectures": ["LlamaForSequenceClassification"]})
    assert read.warnings == ("LlamaForSequenceClassification has no language-model head, but is simulated with one",)
    assert read_checkpoint(LLAMA_3_1_8B | {"architectures": None}).class_name == "llama"
    for class_name, warned in (("Qwen3Model", True), ("GPT2LMHeadModel", False), ("LlamaForCausalLM", False)):
        assert bool(read_checkpoint(LLAMA_3_1_8B | {"architectures": [class_name]}).warnings) == warned


def test_layers_left_in_16_bit_are_named() -> None:
    quantized = {**W4A16, "ignore": ["lm_head", "model.layers.0.mlp.down_proj", "re:.*self_attn.*"]}
    model = model_of(read_checkpoint(QWEN3_8B | {"quantization_config": quantized}))
    assert model.quantization is not None
    assert model.quantization.unquantized == {"qkv", "attention_output"}
    assert model.notes == ("down is in 16 bit in 1 of 36 layers, simulated as quantised",)
