"""Hybrids of Mamba-2 and attention, and experts behind a latent projection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.hybrid import CHUNK_TOKENS
from simsys.model.model_db import load_model
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.work import Precision, forward_work
from simsys.parallel.passes import apart, forward_pass
from simsys.parallel.segments import Experts

TOY = TransformerArchitecture(
    name="toy",
    num_layers=6,
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_size=16,
    intermediate_size=32,
    gated_mlp=False,
    vocab_size=100,
    tied_embeddings=False,
    max_context_tokens=4096,
    experts=8,
    experts_per_token=2,
    expert_intermediate_size=32,
    expert_latent_size=16,
    shared_experts=2,
    mamba_layers=3,
    mamba_heads=8,
    mamba_head_size=16,
    mamba_state_size=32,
    mamba_groups=2,
    mlp_layers=2,
)


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [("Nemotron-3-Nano", 31.6, 3.6), ("Nemotron-3-Super", 120.6, 12.8), ("Nemotron-3-Ultra", 550, 56)],
)
def test_hybrids_have_the_published_numbers_of_parameters(name: str, billions: float, active: float) -> None:
    """Model cards: 31.6B-A3.6B with embeddings, 120.6B-A12.7B, 550B-A55B."""
    model = load_model(name)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=5e-3)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=2e-2)


def test_each_layer_has_one_mixer_and_only_attention_has_a_cache() -> None:
    model = build_transformer(TOY)
    names = [block.name for block in model.blocks[1:-1]]
    assert names == ["mamba_layer"] * 3 + ["attention_layer"] + ["moe_layer"] * 2
    assert model.kv_elements_per_token == 2 * 2 * 16


def test_a_scan_takes_the_products_of_a_chunk_and_of_the_state() -> None:
    """Dao & Gu 2024, section 6: 2 Q (P + N of each group) within a chunk, and 4 N P for the state."""
    mamba = build_transformer(TOY).blocks[1]
    (scan,) = [op for op in mamba.operators if op.name == "state_space_scan"]
    wide, groups, state = 8 * 16, 2 * 32, 8 * 16 * 32
    batch = Batch(tokens=256, logits=256, attention_pairs=1.0)
    flop = forward_work([scan], batch, Precision()).flop
    assert flop == 256 * (2 * CHUNK_TOKENS * (wide + groups) + 4 * state)


def test_a_scan_moves_the_states_of_its_chunks_twice_to_and_from_memory() -> None:
    """In 32 bit: written, read and written when they are passed on, and read for the outputs."""
    mamba = build_transformer(TOY).blocks[1]
    (moved,) = [op for op in mamba.operators if op.name == "scan_states"]
    wide, groups, state = 8 * 16, 2 * 32, 8 * 16 * 32
    nbytes = forward_work([moved], Batch(tokens=CHUNK_TOKENS, logits=1), Precision()).nbytes
    assert nbytes == 4 * 4 * state + 2 * CHUNK_TOKENS * (3 * wide + 4 * groups)


def test_latent_tokens_are_sent_and_projected_up_outside_of_the_experts() -> None:
    """An all-to-all carries k copies of the latent vector; the projection up belongs to all data-parallel ranks."""
    whole = forward_pass(build_transformer(TOY), experts=Experts(4))
    (stretch,) = [each for each in whole.stretches if each.name == "moe_layer"]
    sent = [s.exchange for s in stretch.segments if s.exchange is not None]
    assert [each.elements_per_token for each in sent] == [2 * 16, 2 * 16]
    parts = apart(stretch)
    assert [over for _, over in parts] == ["data", "expert_data", "data"]
    assert [op.name for op in parts[2][0].operators] == ["latent_up"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mamba_heads": 0}, "mamba_layers needs"),
        ({"mamba_layers": 0}, "need mamba_layers"),
        ({"mlp_layers": 4}, "exceed num_layers"),
        ({"window_layers": 1, "sliding_window": 8}, "cannot be combined"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(TOY, **changes)
