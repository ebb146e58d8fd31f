"""Layers with windows or linear attention, in a decoder with a few layers that attend to everything before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.model_db import load_model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.work import Precision, forward_work

PLAIN = TransformerArchitecture(
    name="toy",
    num_layers=8,
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_size=16,
    intermediate_size=128,
    gated_mlp=True,
    vocab_size=100,
    tied_embeddings=False,
    max_context_tokens=4096,
)
WINDOWS = replace(PLAIN, window_layers=4, sliding_window=128)
LINEAR = replace(
    PLAIN, linear_layers=6, linear_key_heads=2, linear_value_heads=4, linear_head_size=16, gated_attention=True
)
TOKEN = Batch(tokens=1, logits=1, decode_sequences=1)


def decode_bytes(architecture: TransformerArchitecture, batch: Batch) -> float:
    blocks = build_transformer(architecture).blocks
    return sum(forward_work(block.operators, batch, Precision()).nbytes for block in blocks)


def growing(architecture: TransformerArchitecture) -> list[Operator]:
    """Decode attention that reads more with every token."""
    operators = [op for block in build_transformer(architecture).blocks for op in block.operators]
    return [op for op in operators if op.kind is OperatorKind.DECODE_ATTENTION and not op.window]


@pytest.mark.parametrize(("architecture", "full"), [(WINDOWS, 4), (LINEAR, 2)])
def test_only_full_layers_have_a_cache_that_grows(architecture: TransformerArchitecture, full: int) -> None:
    assert len(growing(architecture)) == full
    assert build_transformer(architecture).kv_elements_per_token == full * 2 * 2 * 16


def test_window_layers_say_how_far_they_look() -> None:
    layers = {block.name: block for block in build_transformer(WINDOWS).blocks}
    windows = {op.name: op.window for op in layers["window_layer"].operators if op.window}
    assert windows == {"attention": 128, "decode_attention": 128}
    assert not any(op.window for op in layers["layer"].operators)


def test_every_decoding_sequence_reads_and_writes_its_state() -> None:
    more = TOKEN._replace(logits=2)
    head = decode_bytes(PLAIN, more) - decode_bytes(PLAIN, TOKEN)
    state = 6 * 2 * (4 * 16 * 16) * 4  # six layers, read and written, 32 bit
    assert decode_bytes(LINEAR, more) - decode_bytes(LINEAR, TOKEN) - head == pytest.approx(state)


def test_a_sequence_keeps_its_state() -> None:
    operators = [op for block in build_transformer(LINEAR).blocks for op in block.operators]
    assert sum(op.elements_per_sequence for op in operators) * 2 == 6 * (4 * 16 * 16) * 4  # 32 bit


def test_layers_that_alternate_say_so() -> None:
    def spread(architecture: TransformerArchitecture) -> set[str]:
        return {block.name for block in build_transformer(architecture).blocks if block.spread}

    moe = replace(PLAIN, experts=4, expert_intermediate_size=64)
    assert spread(WINDOWS) == {"window_layer", "layer"}
    assert spread(LINEAR) == {"linear_layer", "layer"}
    assert spread(replace(moe, dense_layers_between=4)) == {"dense_layer", "moe_layer"}
    assert spread(PLAIN) == spread(replace(moe, dense_layers_first=1)) == set()


def test_windows_and_dense_layers_of_a_mixture_go_together() -> None:
    both = replace(WINDOWS, experts=4, expert_intermediate_size=64, dense_layers_first=1, dense_layers_between=4)
    names = [block.name for block in build_transformer(both).blocks[1:-1]]
    assert names == ["dense_window_layer"] * 4 + ["dense_layer"] + ["moe_layer"] * 3


def test_sandwich_norms_are_two_more_norms_a_layer() -> None:
    more = build_transformer(replace(PLAIN, sandwich_norms=True))
    assert more.parameters - build_transformer(PLAIN).parameters == 8 * 2 * 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_layers": 2}, "window_layers goes with sliding_window"),
        ({"sliding_window": 128}, "window_layers goes with sliding_window"),
        ({"linear_layers": 2, "linear_value_heads": 2}, "linear_layers needs linear_key_heads"),
        ({"window_layers": 9, "sliding_window": 8}, r"9 window and linear layers exceed num_layers \(8\)"),
        (
            {"experts": 4, "expert_intermediate_size": 8, "dense_layers_between": 9},
            r"number of dense layers \(9\) exceeds num_layers",
        ),
    ],
)
def test_kinds_of_layers_that_do_not_fit_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(PLAIN, **changes)


def test_windows_and_linear_layers_cannot_be_combined() -> None:
    with pytest.raises(UsageError, match="window_layers and linear_layers cannot be combined"):
        replace(LINEAR, window_layers=1, sliding_window=8)


@pytest.mark.parametrize(
    ("name", "parameters", "active"),
    [
        ("gpt-oss-120b", 116.8e9, 5.7e9),
        ("gpt-oss-20b", 20.9e9, 4.2e9),
        ("Qwen3.5-397B-A17B", 397e9, 17e9),
        ("MiniMax-M2.5", 229e9, 11e9),
        ("Kimi-K2.5", 1026e9, 32.9e9),
        ("GLM-5", 744e9, 41e9),
        ("falcon-180B", 179.5e9, 179.5e9),
        ("bloom", 176.2e9, 176.2e9),
        ("gpt-j-6b", 6.05e9, 6.05e9),
    ],
)
def test_shipped_models_have_the_published_number_of_weights(name: str, parameters: float, active: float) -> None:
    """Model cards; of gpt-oss, active ones count the embedding too."""
    model = load_model(name)
    assert model.parameters == pytest.approx(parameters, rel=0.01)
    assert model.active_parameters == pytest.approx(active, rel=0.025)
