"""Models with only their first layers."""

from __future__ import annotations

import pytest

from simsys.errors import UsageError
from simsys.model.first_layers import first_layers
from simsys.model.model_db import load_model


def test_a_proxy_has_embedding_head_and_the_first_layers() -> None:
    whole, proxy = load_model("DeepSeek-V3"), first_layers(load_model("DeepSeek-V3"), 4)
    assert [block.name for block in proxy.blocks] == ["embedding", *["dense_layer"] * 3, "moe_layer", "head"]
    rest = sum(block.parameters for block in whole.blocks[5:-1])
    assert proxy.parameters == pytest.approx(whole.parameters - rest, rel=1e-12)
    assert proxy.kv_elements_per_token == pytest.approx(whole.kv_elements_per_token * 4 / 61)


def test_all_layers_are_the_model_itself() -> None:
    model = load_model("Llama3-8B")
    assert first_layers(model, 32) is model


@pytest.mark.parametrize(
    ("name", "layers", "message"),
    [
        ("Llama3-8B", 33, "exceeds the 32 layers"),
        ("gpt-oss-20b", 4, "a known order"),
        ("T5-Large", 4, "a known order"),
        ("ResNet-50", 4, "a known order"),
    ],
)
def test_layers_that_are_not_there_are_refused(name: str, layers: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        first_layers(load_model(name), layers)
