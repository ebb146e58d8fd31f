"""How a model is divided into pipeline stages: nothing is lost, and what stands outside the layers is at the ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import UsageError
from simsys.model.cnn import build_resnet50
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.stages import partition, uneven_layers

LAYERS = 12


def gpt(num_layers: int) -> Model:
    """A small decoder."""
    return build_transformer(
        gpt_architecture("gpt", num_layers=num_layers, hidden_size=128, num_attention_heads=4, vocab_size=1000)
    )


PLAN = forward_pass(gpt(LAYERS))


def plain(name: str, parameters: float) -> Block:
    operator = Operator(name, OperatorKind.GEMM, parameters=parameters, flop_per_token=2 * parameters)
    return Block(name, (operator,))


def counts(stages: list[list[ForwardPass]]) -> list[list[dict[str, int]]]:
    """For each chunk of each stage, how many blocks of each name, in order."""
    return [[{stretch.name: stretch.repeat for stretch in chunk.stretches} for chunk in chunks] for chunks in stages]


def in_model_order(stages: list[list[ForwardPass]]) -> list[ForwardPass]:
    return [stage[chunk] for chunk in range(len(stages[0])) for stage in stages]


def blocks(plan: ForwardPass) -> list[str]:
    return [stretch.name for stretch in plan.stretches for _ in range(stretch.repeat)]


def test_equal_stages_with_the_embedding_first_and_the_head_last() -> None:
    assert counts(partition(PLAN, 4)) == [
        [{"embedding": 1, "layer": 3}],
        [{"layer": 3}],
        [{"layer": 3}],
        [{"layer": 3, "head": 1}],
    ]


def test_chunks_are_dealt_out_in_turn() -> None:
    assert counts(partition(PLAN, 2, chunks=3)) == [
        [{"embedding": 1, "layer": 2}, {"layer": 2}, {"layer": 2}],
        [{"layer": 2}, {"layer": 2}, {"layer": 2, "head": 1}],
    ]


def test_layers_may_be_divided_unevenly_in_the_order_of_the_model() -> None:
    assert counts(partition(PLAN, 2, chunks=2, layers=[1, 2, 4, 5])) == [
        [{"embedding": 1, "layer": 1}, {"layer": 4}],
        [{"layer": 2}, {"layer": 5, "head": 1}],
    ]


def test_one_stage_is_the_whole_model() -> None:
    ((whole,),) = partition(PLAN, 1)
    assert blocks(whole) == blocks(PLAN)
    assert whole.parameters == PLAN.parameters


def test_only_the_last_stage_has_the_head() -> None:
    assert [stage[0].has_head for stage in partition(PLAN, 3)] == [False, False, True]


def test_equal_layers_stay_the_same_object() -> None:
    segments = {id(stretch.segments) for stage in partition(PLAN, 4) for stretch in stage[0].stretches}
    assert len(segments) == 3  # embedding, layer, head: so durations are computed once


def test_a_model_of_different_layers_is_divided_between_them() -> None:
    """Three dense layers, then experts: the boundary need not lie where they meet."""
    one, other = plain("dense", 10.0), plain("experts", 100.0)
    model = Model("mixed", "decoder", (plain("embedding", 1.0), *[one] * 3, *[other] * 5, plain("head", 2.0)))
    assert counts(partition(forward_pass(model), 4)) == [
        [{"embedding": 1, "dense": 2}],
        [{"dense": 1, "experts": 1}],
        [{"experts": 2}],
        [{"experts": 2, "head": 1}],
    ]


def test_blocks_that_never_repeat_are_layers_themselves() -> None:
    model = Model("custom", "decoder", tuple(plain(f"l{index}", 1.0 + index) for index in range(6)))
    stages = partition(forward_pass(model), 3)
    assert [blocks(stage[0]) for stage in stages] == [["l0", "l1"], ["l2", "l3"], ["l4", "l5"]]


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=8), tensor=st.sampled_from([1, 2]))
def test_nothing_is_lost(sizes: list[int], tensor: int) -> None:
    chunks = 2 if len(sizes) % 2 == 0 else 1
    plan = forward_pass(gpt(sum(sizes)), tensor)
    divided = partition(plan, len(sizes) // chunks, chunks, sizes)
    assert [len(stage) for stage in divided] == [chunks] * (len(sizes) // chunks)
    pieces = in_model_order(divided)
    assert [sum(name == "layer" for name in blocks(piece)) for piece in pieces] == sizes
    assert [name for piece in pieces for name in blocks(piece)] == blocks(plan)
    assert sum(piece.parameters for piece in pieces) == pytest.approx(plan.parameters)
    assert pieces[-1].output_elements_per_token == plan.output_elements_per_token


def test_a_network_without_equal_ends_keeps_all_its_parameters() -> None:
    plan = forward_pass(build_resnet50())
    with pytest.raises(UsageError) as caught:
        partition(plan, 2, layers=[1, 1])
    layers = int(str(caught.value).partition("add up to ")[2].split()[0])
    pieces = in_model_order(partition(plan, 3, layers=[layers // 2, 1, layers - layers // 2 - 1]))
    assert [name for piece in pieces for name in blocks(piece)] == blocks(plan)
    assert sum(piece.parameters for piece in pieces) == pytest.approx(plan.parameters)


@pytest.mark.parametrize(
    ("stages", "chunks", "nearest"),
    [(5, 1, "3, 4, 6"), (7, 1, "3, 4, 6"), (8, 1, "4, 6, 12"), (24, 1, "4, 6, 12"), (4, 2, "4, 6, 12")],
)
def test_what_does_not_divide_the_layers_is_refused_with_the_nearest_that_do(
    stages: int, chunks: int, nearest: str
) -> None:
    message = rf"12 layers cannot be divided among {stages * chunks} stages \(virtual ones counted\); {nearest} would"
    with pytest.raises(UsageError, match=message):
        partition(PLAN, stages, chunks)


@pytest.mark.parametrize(
    ("sizes", "total"),
    [([6, 5], 11), ([6, 7], 13), ([12], 12), ([4, 4, 4], 12), ([], 0)],
)
def test_layers_per_stage_must_add_up(sizes: list[int], total: int) -> None:
    with pytest.raises(UsageError, match=rf"must be 2 numbers that add up to 12 layers, not .* \(sum {total}\)"):
        partition(PLAN, 2, layers=sizes)


def test_layers_that_alternate_are_shared_out_evenly() -> None:
    window, full = (replace(plain(name, 1.0), spread=True) for name in ("window", "full"))
    plan = forward_pass(Model("mixed", "decoder", (*[window] * 10, *[full] * 2)))
    assert counts(partition(plan, 2)) == [[{"window": 5, "full": 1}], [{"window": 5, "full": 1}]]
    thirds = [[{"window": 3, "full": 1}], [{"window": 4}], [{"window": 3, "full": 1}]]
    assert counts(partition(plan, 3)) == thirds


@pytest.mark.parametrize(
    ("layers", "chunks", "sizes"),
    [(70, 12, [5, *[6] * 10, 5]), (30, 32, [0, *[1] * 30, 0]), (7, 4, [2, 2, 2, 1])],
)
def test_uneven_layers_count_embedding_and_head_if_that_makes_them_even(
    layers: int, chunks: int, sizes: list[int]
) -> None:
    assert uneven_layers(layers, chunks) == sizes
