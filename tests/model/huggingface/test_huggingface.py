"""Published configurations give models with the parameters, caches and layers that their cards state."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.config.architectures import listed_architectures
from simsys.errors import UsageError
from simsys.model.description import described
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.windows import in_serving, whole
from tests.helpers.published_configs import (
    BART,
    BERT,
    DEEPSEEK_V3,
    FALCON,
    GPT2,
    LLAMA_3_1_8B,
    OPT,
    PUBLISHED,
    T5_11B,
    T5_LARGE,
    T5_XL_V1_1,
    Published,
)

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
SPARSE = {"model_type": "deepseek_v32", "index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128}


def tolerance(stated: str) -> float:
    """A hundredth, or half of the last digit stated."""
    digits = len(stated.partition(".")[2])
    return max(0.01 * float(stated), 0.5 * 10.0**-digits)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_the_parameters_that_their_cards_state(name: str) -> None:
    published: Published = PUBLISHED[name]
    checkpoint = read_checkpoint(published.config)
    model, sizes = model_of(checkpoint), checkpoint.architecture
    assert model.parameters / 1e9 == pytest.approx(float(published.total), abs=0.01 * float(published.total))
    if published.active:
        table = sizes.vocab_size * sizes.hidden_size / 1e9
        left_out = {"": 0.0, "embedding": table, "embedding and head": 2 * table}[published.without]
        active = model.active_parameters / 1e9 - left_out
        assert active == pytest.approx(float(published.active), abs=tolerance(published.active))


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_key_of_published_configurations_is_known(name: str) -> None:
    warnings = read_checkpoint(PUBLISHED[name].config).warnings
    assert not [text for text in warnings if "does not know" in text]


@pytest.mark.parametrize(
    ("config", "total_billions", "kv_bytes"),
    [
        (LLAMA_3_1_8B, 8.03, 131_072),
        (DEEPSEEK_V3, 671.03, 70_272),
        (PUBLISHED["Mixtral-8x7B"].config, 46.70, 131_072),
        (PUBLISHED["Qwen3-32B-AWQ"].config, 32.76, 262_144),
        (PUBLISHED["gpt-oss-20b"].config, 20.91, 12 * 2 * 8 * 64 * 2),
        (PUBLISHED["gemma-3-27b-it"].config, 27.43, 10 * 2 * 16 * 128 * 2),
        (PUBLISHED["Qwen3-Next-80B-A3B"].config, 79.67, 12 * 2 * 2 * 256 * 2),
        (GPT2, 0.12444, 36_864),
        (BERT, 0.10948, 0),
        (FALCON, 6.92, 8_192),
        (OPT, 1.3158, 196_608),
        (T5_LARGE, 0.73767, 0),
        (T5_11B, 11.3073, 0),
        (T5_XL_V1_1 | {"tie_word_embeddings": False}, 2.84976, 0),
        (BART, 0.40629, 0),
        (BART | {"decoder_layers": 6}, 0.30551, 0),
    ],
)
def test_the_cache_that_grows_is_that_of_layers_with_full_attention(
    config: dict[str, Any], total_billions: float, kv_bytes: int
) -> None:
    model = model_of(read_checkpoint(config))
    assert model.parameters / 1e9 == pytest.approx(total_billions, rel=1e-3)
    assert model.kv_elements_per_token * 2 == kv_bytes
    assert model.warnings == () or "vision tower" in model.warnings[0]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA_3_1_8B, "Llama-3.1-8B"),
        (GPT2, "GPT2-Small"),
        (BERT, "BERT-Base"),
        (DEEPSEEK_V3, "DeepSeek-V3"),
        (PUBLISHED["Kimi-K2"].config, "Kimi-K2"),
        (PUBLISHED["Mixtral-8x7B"].config, "Mixtral-8x7B"),
        (PUBLISHED["MiniMax-M2"].config, "MiniMax-M2"),
        (PUBLISHED["Qwen3-32B-AWQ"].config, "Qwen3-32B"),
        (PUBLISHED["gpt-oss-20b"].config, "gpt-oss-20b"),
        (PUBLISHED["gpt-oss-120b"].config, "gpt-oss-120b"),
        (PUBLISHED["gemma-2-9b"].config, "Gemma-2-9B"),
        (PUBLISHED["gemma-3-27b-it"].config, "Gemma-3-27B"),
        (PUBLISHED["GLM-4.5"].config, "GLM-4.5"),
        (PUBLISHED["GLM-4.5-Air"].config, "GLM-4.5-Air"),
        (PUBLISHED["Llama-4-Maverick"].config, "Llama-4-Maverick"),
        (PUBLISHED["Llama-4-Scout"].config, "Llama-4-Scout"),
        (PUBLISHED["Qwen3-Next-80B-A3B"].config, "Qwen3-Next-80B-A3B"),
        (DEEPSEEK_V3 | SPARSE, "DeepSeek-V3.2"),
        (FALCON, "Falcon-7B"),
        (T5_LARGE, "T5-Large"),
        (T5_11B, "T5-11B"),
        (BART, "BART-Large"),
    ],
)
def test_a_configuration_gives_the_shipped_architecture(config: dict[str, Any], name: str) -> None:
    read = read_checkpoint(config).architecture
    assert replace(read, name=name, source="") == replace(BY_NAME[name], source="")


VALUES = [None, True, "x", "4096", [], [1], {}, {"a": 1}, -1, 0, 3, 1.5, 1e308, float("nan"), 10**400, 3_000_000]


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(PUBLISHED)), value=st.sampled_from(VALUES), data=st.data())
def test_a_wrong_value_is_refused_with_its_place_or_understood(name: str, value: object, data: st.DataObject) -> None:
    config = copy.deepcopy(PUBLISHED[name].config)
    place = config
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not (isinstance(place[key], dict) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = value
    with contextlib.suppress(UsageError):
        assert described(in_serving(model_of(read_checkpoint(config)), whole))
