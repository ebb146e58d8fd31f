"""Tensor parallelism as a transform: what ranks share out, what they repeat, and what they exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind
from simsys.config.architectures import listed_architectures
from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.cnn import build_resnet50
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision, kernel_of
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.segments import Segment, block_segments, with_layers
from simsys.parallel.sharding import shard

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
GPT = build_transformer(gpt_architecture("toy", num_layers=4, hidden_size=512, num_attention_heads=8, vocab_size=1024))
LLAMA = build_transformer(BY_NAME["Llama3-8B"])
MIXTRAL = build_transformer(BY_NAME["Mixtral-8x7B"])
DEEPSEEK = build_transformer(BY_NAME["DeepSeek-V3"])
MODELS = {"GPT": GPT, "Llama": LLAMA, "Mixtral": MIXTRAL, "DeepSeek": DEEPSEEK}
BATCH = Batch(tokens=96.0, logits=96.0, attention_pairs=4656.0)
DEGREES = [1, 2, 4, 8]


def segments_of(model: Model, degree: int) -> list[Segment]:
    """All segments of a pass, repeated as often as they run."""
    return [
        segment
        for stretch in forward_pass(model, degree).stretches
        for _ in range(stretch.repeat)
        for segment in stretch.segments
    ]


def operators_of(model: Model, degree: int) -> list[Operator]:
    return [operator for segment in segments_of(model, degree) for operator in segment.operators]


def pairs_of(model: Model, degree: int) -> list[tuple[Operator, Operator]]:
    """Every operator with one rank's share of it."""
    whole = [operator for block in model.blocks for operator in block.operators]
    return list(zip(whole, operators_of(model, degree), strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("degree", DEGREES)
def test_the_parameters_of_all_ranks_are_the_model_with_the_replicated_ones_repeated(name: str, degree: int) -> None:
    for whole, share in pairs_of(MODELS[name], degree):
        copies = degree if whole.split is Split.REPLICATED else 1
        assert share.parameters * degree == pytest.approx(whole.parameters * copies), whole.name
    model = MODELS[name]
    replicated = sum(o.parameters for b in model.blocks for o in b.operators if o.split is Split.REPLICATED)
    total = degree * sum(operator.parameters for operator in operators_of(model, degree))
    assert total == pytest.approx(model.parameters + model.tied_parameters + (degree - 1) * replicated)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("degree", DEGREES)
def test_flop_are_shared_out_except_those_of_replicated_operators(name: str, degree: int) -> None:
    for whole, share in pairs_of(MODELS[name], degree):
        copies = degree if whole.split is Split.REPLICATED else 1
        before, after = (kernel_of(operator, BATCH, Precision()) for operator in (whole, share))
        assert after.flop * degree == pytest.approx(before.flop * copies), whole.name


@pytest.mark.parametrize("name", ["GPT", "Llama", "Mixtral"])
def test_almost_all_flop_of_a_transformer_are_shared_out(name: str) -> None:
    whole, share = (
        sum(kernel_of(operator, BATCH, Precision()).flop for operator in operators_of(MODELS[name], degree))
        for degree in (1, 8)
    )
    assert share * 8 == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("name", ["GPT", "Llama", "Mixtral"])
@pytest.mark.parametrize("degree", [2, 8])
def test_a_layer_exchanges_two_all_reduces_of_its_hidden_size(name: str, degree: int) -> None:
    """Shoeybi et al. 2019, section 3: one after attention, one after the MLP."""
    model = MODELS[name]
    plan = forward_pass(model, degree)
    embedding, *layers, head = plan.stretches
    for stretch in layers:
        exchanges = [segment.exchange for segment in stretch.segments]
        assert [(e.kind, e.elements_per_token) for e in exchanges if e] == [
            (CollectiveKind.ALL_REDUCE, model.hidden_size)
        ] * 2
        assert None not in exchanges  # nothing follows the second
    assert sum(stretch.repeat for stretch in layers) == model.num_layers
    (looked_up,) = (segment.exchange for segment in embedding.segments)
    assert (looked_up.kind, looked_up.elements_per_token) == (CollectiveKind.ALL_REDUCE, model.hidden_size)
    logits = head.segments[-1].exchange
    assert (logits.kind, logits.elements_per_token) == (CollectiveKind.ALL_GATHER, model.vocab_size)
    assert logits.per_logit


def test_shared_and_routed_experts_are_added_up_in_one_all_reduce() -> None:
    moe = next(stretch for stretch in forward_pass(DEEPSEEK, 8).stretches if stretch.name == "moe_layer")
    assert [len(segment.operators) > 0 and segment.exchange is not None for segment in moe.segments] == [True, True]
    assert [operator.name for operator in moe.segments[1].operators][-1] == "experts_down"
    assert "shared_down" in [operator.name for operator in moe.segments[1].operators]


@pytest.mark.parametrize("model", [*MODELS.values(), build_resnet50()], ids=lambda model: model.name)
def test_one_rank_exchanges_nothing_and_changes_nothing(model: Model) -> None:
    assert all(whole is share for whole, share in pairs_of(model, 1))
    assert not any(segment.exchange for segment in segments_of(model, 1))
    assert all(len(stretch.segments) == 1 for stretch in forward_pass(model).stretches)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("degree", DEGREES)
def test_the_host_overhead_of_a_layer_is_divided_among_its_segments(name: str, degree: int) -> None:
    for stretch in forward_pass(MODELS[name], degree).stretches:
        assert sum(segment.layers for segment in stretch.segments) == pytest.approx(1.0)


@pytest.mark.parametrize("name", MODELS)
def test_equal_layers_are_one_stretch(name: str) -> None:
    model = MODELS[name]
    stretches = forward_pass(model).stretches
    assert sum(stretch.repeat for stretch in stretches) == len(model.blocks)
    assert len(stretches) == len(set(map(id, model.blocks)))


@pytest.mark.parametrize(("degree", "share"), [(1, 1), (2, 2), (8, 8), (16, 8), (32, 8)])
def test_beyond_one_rank_per_key_value_head_the_cache_is_replicated(degree: int, share: int) -> None:
    cached = Operator(
        "decode_attention",
        OperatorKind.DECODE_ATTENTION,
        Split.HEADS,
        flop_per_pair=64.0,
        elements_per_context_token=64,
    )
    part = shard(cached, degree, num_key_value_heads=8)
    assert part.elements_per_context_token == 64 / share
    assert part.flop_per_pair == 64 / degree  # query heads go on being divided


def test_latent_keys_and_values_are_read_whole_by_every_rank() -> None:
    whole, share = (
        next(o for o in operators_of(DEEPSEEK, degree) if o.name == "decode_attention") for degree in (1, 8)
    )
    assert share.elements_per_context_token == whole.elements_per_context_token


@pytest.mark.parametrize(("split", "columns", "inner"), [(Split.COLUMN, 64, 128), (Split.ROW, 256, 32)])
def test_column_and_row_splits_divide_the_side_they_are_named_after(split: Split, columns: int, inner: int) -> None:
    whole = Operator("mlp", OperatorKind.GEMM, split, 32768.0, columns=256, inner=128, flop_per_token=65536.0)
    part = shard(whole, 4)
    assert (part.columns, part.inner) == (columns, inner)
    assert part.elements_per_token == columns + inner
    assert part.flop_per_token == 2.0 * columns * inner


def test_a_vocabulary_is_padded_until_each_part_is_aligned() -> None:
    head = Operator("lm_head", OperatorKind.GEMM, Split.VOCABULARY, 50257.0, columns=50257, inner=64)
    assert shard(head, 8).columns == 6288  # a multiple of 8, and 8 x 6288 = 50304


@pytest.mark.parametrize(("split", "size"), [(Split.COLUMN, "columns"), (Split.ROW, "inner")])
def test_what_cannot_be_divided_is_refused(split: Split, size: str) -> None:
    whole = replace(Operator("mlp", OperatorKind.GEMM, split, columns=6, inner=6), **{size: 10})
    with pytest.raises(UsageError, match=f"'mlp' has 10 {size}, which tensor parallelism of 4 does not divide"):
        shard(whole, 4)


@given(st.lists(st.sampled_from(list(Split)), min_size=1, max_size=8), st.sampled_from([1, 2, 4]))
def test_cutting_a_block_loses_no_operator_and_keeps_their_order(splits: list[Split], degree: int) -> None:
    operators = tuple(
        Operator(f"operator {i}", OperatorKind.GEMM, split, columns=8, inner=8) for i, split in enumerate(splits)
    )
    segments = with_layers(block_segments(Block("block", operators, output_elements_per_token=8.0), degree))
    names = [operator.name for segment in segments for operator in segment.operators]
    assert names == [operator.name for operator in operators]
    assert all(segment.operators for segment in segments)
    assert all(segment.exchange for segment in segments[:-1])


@given(st.lists(st.sampled_from(list(Split)), min_size=1, max_size=8), st.sampled_from([1, 2, 4]))
def test_with_sequence_parallelism_what_is_split_has_all_tokens_and_the_rest_its_share(
    splits: list[Split], degree: int
) -> None:
    operators = tuple(
        Operator(f"operator {i}", OperatorKind.GEMM, split, columns=8, inner=8, rows_per_token=1.0)
        for i, split in enumerate(splits)
    )
    block = Block("block", operators, output_elements_per_token=8.0)
    segments = with_layers(block_segments(block, degree, sequence_parallel=True))
    names = [operator.name for segment in segments for operator in segment.operators]
    assert names == [operator.name for operator in operators]
    assert sum(segment.layers for segment in segments) == pytest.approx(1.0)
    gathered = degree == 1
    for segment in segments:
        for share in segment.operators:
            assert gathered or share.split is Split.REPLICATED, "a split operator has all tokens"
            assert share.rows_per_token == (1.0 if gathered else 1.0 / degree)
        kind = segment.exchange.kind if segment.exchange else None
        assert kind is not CollectiveKind.ALL_REDUCE
        if kind is CollectiveKind.ALL_GATHER and segment.exchange.elements_per_token == 8.0:
            gathered = True
        elif kind is CollectiveKind.REDUCE_SCATTER:
            gathered = False


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("degree", [2, 4, 8])
def test_sequence_parallelism_exchanges_the_same_volume_and_holds_the_same_weights(name: str, degree: int) -> None:
    """An all-reduce is a reduce-scatter and an all-gather (Korthikanti et al. 2022, §4.2.2)."""
    whole, divided = (forward_pass(MODELS[name], degree, by_tokens) for by_tokens in (False, True))
    assert divided.parameters == pytest.approx(whole.parameters)
    assert volume(divided, CollectiveKind.ALL_REDUCE) == 0.0
    summed = volume(whole, CollectiveKind.ALL_REDUCE)
    assert volume(divided, CollectiveKind.REDUCE_SCATTER) == summed
    logits = volume(whole, CollectiveKind.ALL_GATHER)
    assert volume(divided, CollectiveKind.ALL_GATHER) - logits == summed  # once for the head, in the embedding's place


def volume(plan: ForwardPass, kind: CollectiveKind) -> float:
    """Elements of each token that collectives of a kind carry in a pass."""
    return sum(
        stretch.repeat * segment.exchange.elements_per_token
        for stretch in plan.stretches
        for segment in stretch.segments
        if segment.exchange and segment.exchange.kind is kind
    )


def test_serving_knows_no_sequence_parallelism() -> None:
    assert volume(forward_pass(GPT, 4), CollectiveKind.REDUCE_SCATTER) == 0.0


def test_a_block_may_begin_with_an_exchange() -> None:
    up = Operator("up", OperatorKind.GEMM, Split.COLUMN, columns=8, inner=4)
    down = Operator("down", OperatorKind.GEMM, Split.ROW, columns=4, inner=8)
    first, second = block_segments(Block("mlp", (up, down), 4.0), 2, sequence_parallel=True)
    assert first.operators == ()
    assert first.layers == 0.0
    assert (first.exchange.kind, first.exchange.elements_per_token) == (CollectiveKind.ALL_GATHER, 4.0)
    assert [operator.name for operator in second.operators] == ["up", "down"]
