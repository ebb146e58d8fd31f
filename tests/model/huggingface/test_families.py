"""Model types: known ones, those that are refused by name, and unknown ones."""

from __future__ import annotations

import pytest

from simsys.errors import ConfigError
from simsys.model.huggingface import read_checkpoint
from simsys.model.huggingface.families import FAMILIES, MULTIMODAL, NOT_MODELLED
from tests.helpers.published_configs import LLAMA_3_1_8B, LLAVA_1_5_7B


def test_types_are_known_or_refused_not_both() -> None:
    assert not {*FAMILIES, *MULTIMODAL} & NOT_MODELLED.keys()
    assert set(MULTIMODAL.values()) <= FAMILIES.keys()
    assert not FAMILIES.keys() & MULTIMODAL.keys()


@pytest.mark.parametrize(
    ("model_type", "why"),
    [
        ("mamba", "state-space models"),
        ("mamba2", "state-space models"),
        ("falcon_mamba", "state-space models"),
        ("jamba", "attention combined with state-space layers"),
        ("nemotron_h", "attention combined with state-space layers"),
        ("kimi_linear", "linear attention combined with latent attention"),
        ("mllama", "cross-attention of the language model to images"),
        ("whisper", "audio"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(model_type: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"model_type: '{model_type}' cannot be simulated: .*{why}"):
        read_checkpoint(LLAMA_3_1_8B | {"model_type": model_type})
    nested = LLAVA_1_5_7B | {"text_config": {"model_type": model_type}}
    with pytest.raises(ConfigError, match=f"text_config.model_type: '{model_type}' cannot be simulated: .*{why}"):
        read_checkpoint(nested)


def test_an_unknown_type_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"unknown model_type 'xyz9'; known: arcee, .* write assume: llama next to"):
        read_checkpoint(LLAMA_3_1_8B | {"model_type": "xyz9"})
    with pytest.raises(ConfigError, match=r"unknown model_type 'lama', did you mean 'llama'\?"):
        read_checkpoint(LLAMA_3_1_8B | {"model_type": "lama"})
    with pytest.raises(ConfigError, match=r"text_config.model_type: 'lama' cannot be simulated: it is not known, did"):
        read_checkpoint(LLAVA_1_5_7B | {"text_config": {"model_type": "lama"}})


@pytest.mark.parametrize("model_type", [None, 7, ["llama"]])
def test_a_type_is_needed(model_type: object) -> None:
    with pytest.raises(ConfigError, match=r"missing model_type|model_type: expected a string"):
        read_checkpoint(LLAMA_3_1_8B | {"model_type": model_type})


def test_an_unknown_type_can_be_read_as_a_known_one() -> None:
    read = read_checkpoint(LLAMA_3_1_8B | {"model_type": "xyz9"}, assume="llama")
    assert read.architecture.gated_mlp
    assert read.warnings == ("model_type xyz9 is simulated as if it were llama (assume)",)
    assert read_checkpoint(LLAMA_3_1_8B, assume="llama").warnings == ()
    with pytest.raises(ConfigError, match=r"assume: unknown model type 'lama', did you mean 'llama'\?"):
        read_checkpoint(LLAMA_3_1_8B, assume="lama")


def test_what_is_not_modelled_can_be_read_as_what_is() -> None:
    (warning,) = read_checkpoint(LLAMA_3_1_8B | {"model_type": "jamba"}, assume="llama").warnings
    assert "model_type jamba is simulated as if it were llama" in warning


def test_an_assumed_multimodal_model_is_read_below_its_language_model() -> None:
    read = read_checkpoint(LLAVA_1_5_7B | {"model_type": "xyz9"}, assume="llama")
    assert read.architecture.max_context_tokens == 4096
    assert read.tower is None
    assert any("vision_config" in warning for warning in read.warnings)
