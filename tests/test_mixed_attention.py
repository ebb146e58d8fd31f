"""Layers whose cache does not grow: windows and linear attention, in a decoder with a few layers that see all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.model_db import load_model
from simsys.model.operators import OperatorKind
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
WINDOWS = replace(PLAIN, full_attention_every=2, sliding_window=128)
LINEAR = replace(
    PLAIN, full_attention_every=4, linear_key_heads=2, linear_value_heads=4, linear_head_size=16, gated_attention=True
)
TOKEN = Batch(tokens=1, logits=1, decode_sequences=1)


def decode_bytes(architecture: TransformerArchitecture, batch: Batch) -> float:
    blocks = build_transformer(architecture).blocks
    return sum(forward_work(block.operators, batch, Precision()).nbytes for block in blocks)


@pytest.mark.parametrize(("architecture", "full"), [(WINDOWS, 4), (LINEAR, 2)])
def test_only_full_layers_have_a_cache_that_grows(architecture: TransformerArchitecture, full: int) -> None:
    model = build_transformer(architecture)
    decode = [op for block in model.blocks for op in block.operators if op.kind is OperatorKind.DECODE_ATTENTION]
    assert len(decode) == full
    assert model.kv_elements_per_token == full * 2 * 2 * 16
    further = decode_bytes(architecture, TOKEN._replace(decode_context_tokens=1000)) - decode_bytes(
        architecture, TOKEN
    )
    assert further == model.kv_elements_per_token * 1000 * 2


def test_every_decoding_sequence_reads_its_window() -> None:
    more = TOKEN._replace(logits=2)
    head = decode_bytes(PLAIN, more) - decode_bytes(PLAIN, TOKEN)
    window = 4 * 128 * (2 * 2 * 16) * 2
    assert decode_bytes(WINDOWS, more) - decode_bytes(WINDOWS, TOKEN) - head == pytest.approx(window)


def test_every_decoding_sequence_reads_and_writes_its_state() -> None:
    more = TOKEN._replace(logits=2)
    head = decode_bytes(PLAIN, more) - decode_bytes(PLAIN, TOKEN)
    state = 6 * 2 * (4 * 16 * 16) * 4  # six layers, read and written, 32 bit
    assert decode_bytes(LINEAR, more) - decode_bytes(LINEAR, TOKEN) - head == pytest.approx(state)


def test_windows_bound_the_work_of_prompts() -> None:
    """A window's FLOP for each token are those of so many pairs."""
    tokens, pairs = 1000.0, 1000 * 1001 / 2
    batch = Batch(tokens=tokens, logits=1, attention_pairs=pairs)
    flop = {
        name: sum(forward_work(block.operators, batch, Precision()).flop for block in build_transformer(a).blocks)
        for name, a in (("plain", PLAIN), ("windows", WINDOWS))
    }
    per_pair = 4.0 * 4 * 16
    assert flop["plain"] - flop["windows"] == pytest.approx(4 * per_pair * (pairs - 128 * tokens))


@pytest.mark.parametrize("changes", [{"full_attention_every": 2}, {"sliding_window": 128}])
def test_windows_or_linear_layers_go_with_full_ones(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="full_attention_every above 1 goes with sliding_window"):
        replace(PLAIN, **changes)


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
