"""Attention within windows against counts of the pairs, token by token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.costs.segment_cost import SegmentCost
from simsys.errors import InternalError
from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.windows import WindowUse, has_windows, in_serving, in_training, pairs_in_window
from simsys.model.work import Precision, forward_work
from simsys.parallel.passes import forward_pass
from simsys.testing import toy_device

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
MODEL = build_transformer(PLAIN)
WINDOWED = build_transformer(replace(PLAIN, window_layers=6, sliding_window=128))
LINEAR = build_transformer(
    replace(PLAIN, linear_layers=6, linear_key_heads=2, linear_value_heads=4, linear_head_size=16)
)
FLOP_PER_PAIR = 4.0 * 4 * 16
CACHED_BYTES = 2 * 2 * 16 * 2


def flop(model: Model, batch: Batch) -> float:
    return sum(forward_work(block.operators, batch, Precision()).flop for block in model.blocks)


def nbytes(model: Model, batch: Batch) -> float:
    return sum(forward_work(block.operators, batch, Precision()).nbytes for block in model.blocks)


def operators(model: Model, name: str) -> list[Operator]:
    return [op for block in model.blocks for op in block.operators if op.name == name]


@pytest.mark.parametrize(("tokens", "window"), [(1, 1), (7, 3), (7, 7), (7, 100), (300, 128)])
def test_pairs_are_those_of_each_token(tokens: int, window: int) -> None:
    assert pairs_in_window(tokens, window) == sum(min(place, window) for place in range(1, tokens + 1))


@pytest.mark.parametrize(("tokens", "window", "block"), [(8, 2, 2), (16, 5, 4), (16, 4, 4), (16, 1, 4), (16, 99, 4)])
def test_kernels_compute_whole_blocks(tokens: int, window: int, block: int) -> None:
    def seen(queries: int, keys: int) -> bool:
        return any(0 <= q - k < window for q in range(queries, queries + block) for k in range(keys, keys + block))

    starts = range(0, tokens, block)
    expected = block**2 * sum(seen(queries, keys) for queries in starts for keys in starts)
    assert pairs_in_window(tokens, window, block) == expected


def test_training_computes_the_blocks_that_windows_cut() -> None:
    trained = in_training(WINDOWED, 1024, fused=True, block=256)
    batch = trained.training_batch(1, 1024, attention_block=256)
    whole = MODEL.training_batch(1, 1024, attention_block=256)
    assert whole.attention_pairs == 10 * 256**2
    hidden = 10 * 256**2 - 7 * 256**2  # a window of 128 tokens reaches into one block before the own
    assert flop(MODEL, whole) - flop(trained, batch) == pytest.approx(6 * hidden * FLOP_PER_PAIR, rel=1e-9)


@pytest.mark.parametrize("length", [64, 128, 1000])
def test_training_computes_the_pairs_within_windows(length: int) -> None:
    trained = in_training(WINDOWED, length, fused=True)
    assert not has_windows(trained)
    batch = trained.training_batch(3, length)
    hidden = pairs_in_window(length, length) - pairs_in_window(length, 128)
    saved = flop(MODEL, batch) - flop(trained, batch)
    assert saved == pytest.approx(6 * 3 * hidden * FLOP_PER_PAIR, rel=1e-9)


def test_unfused_attention_saves_nothing() -> None:
    trained = in_training(WINDOWED, 1000, fused=False)
    batch = trained.training_batch(1, 1000, fused_attention=False)
    assert flop(trained, batch) == flop(MODEL, batch)


def test_training_keeps_the_state_within_a_chunk() -> None:
    (served, *_), (trained, *_) = (
        operators(model, "linear_state") for model in (LINEAR, in_training(LINEAR, 512, fused=True))
    )
    assert trained.elements_per_token == served.elements_per_token / 64


def test_a_window_that_nothing_exceeds_is_full_attention() -> None:
    served = in_serving(WINDOWED, lambda window: None)
    assert not has_windows(served)
    batch = Batch(tokens=10, logits=4, attention_pairs=55, decode_context_tokens=500, decode_sequences=3)
    assert (flop(served, batch), nbytes(served, batch)) == (flop(MODEL, batch), nbytes(MODEL, batch))


def test_serving_reads_what_the_window_holds() -> None:
    asked = list[int]()

    def use(window: int) -> WindowUse:
        asked.append(window)
        return WindowUse(tokens_per_query=50.0, tokens_held=100.0)

    served = in_serving(WINDOWED, use)
    assert set(asked) == {128}
    short, long = (Batch(tokens=1, logits=1, decode_context_tokens=n, decode_sequences=1) for n in (0, 1000))
    assert nbytes(served, long) - nbytes(served, short) == 2 * 1000 * CACHED_BYTES
    plain = Batch(tokens=1, logits=1, decode_sequences=1)
    assert nbytes(served, plain) - nbytes(MODEL, plain) == 6 * 100 * CACHED_BYTES
    assert flop(served, plain) - flop(MODEL, plain) == 6 * 50 * FLOP_PER_PAIR
    assert sum(op.elements_per_sequence for op in operators(served, "window_cache")) * 2 == 6 * 100 * CACHED_BYTES


def test_sparse_attention_reads_the_chosen_keys_and_scores_all() -> None:
    latent = replace(
        PLAIN,
        num_key_value_heads=4,
        q_lora_rank=32,
        kv_lora_rank=16,
        qk_nope_head_size=8,
        qk_rope_head_size=8,
        v_head_size=8,
    )
    sparse = build_transformer(replace(latent, index_tokens=128, index_heads=4, index_head_size=8))
    assert sparse.kv_elements_per_token == 8 * (16 + 8 + 8)
    served = in_serving(sparse, lambda window: WindowUse(100.0, float(window)))
    operators = {each.name: each for each in served.blocks[1].operators}
    chosen, scored = operators["decode_attention"], operators["index_decode_scores"]
    assert chosen.elements_per_token == 128 * (16 + 8)
    assert chosen.flop_per_token == 128 * 2 * 4 * (2 * 16 + 8)
    assert chosen.elements_per_sequence == chosen.elements_per_context_token == 0.0
    assert scored.elements_per_context_token == 8
    short = in_serving(sparse, lambda window: None)
    assert {each.name: each for each in short.blocks[1].operators}["decode_attention"].elements_per_context_token == 24


def test_a_cache_in_fewer_bits_is_smaller() -> None:
    use = WindowUse(50.0, 100.0)
    (half, *_), (whole, *_) = (
        operators(in_serving(WINDOWED, lambda _: use, ratio), "window_cache") for ratio in (0.5, 1.0)
    )
    assert 2 * half.elements_per_token == whole.elements_per_token
    assert 2 * half.elements_per_sequence == whole.elements_per_sequence


def test_equal_layers_stay_one_object() -> None:
    served = in_serving(WINDOWED, lambda window: None)
    assert len(served.kinds_of_blocks) == len(WINDOWED.kinds_of_blocks) == 4


def test_costs_of_unresolved_windows_are_a_bug() -> None:
    (segment, *_) = forward_pass(WINDOWED).stretches[1].segments
    assert segment.operators[2].kind is OperatorKind.ATTENTION
    with pytest.raises(InternalError, match="window of attention was not resolved"):
        SegmentCost(segment, toy_device(), Precision(), 0.0)
