"""A replica's stages: what each holds, receives and exchanges; whole experts against parts of all."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest

from simsys.collectives import CollectiveKind
from simsys.config.architectures import listed_architectures
from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.lora import with_adapters
from simsys.model.model import Model
from simsys.model.operators import POPULARITY, Operator, OperatorKind
from simsys.model.transformer import build_transformer
from simsys.model.work import Precision, kernel_of
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.replica import ExpertProducts, replica_stages, with_length_skew
from simsys.parallel.segments import Experts

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
LLAMA, MIXTRAL, DEEPSEEK = (build_transformer(BY_NAME[name]) for name in ("Llama3-8B", "Mixtral-8x7B", "DeepSeek-V3"))


def operators_of(*plans: ForwardPass) -> list[tuple[int, Operator]]:
    return [(each.repeat, op) for plan in plans for each in plan.stretches for op in each.operators]


def exchanges_of(plan: ForwardPass) -> Counter[tuple[CollectiveKind, float]]:
    found: Counter[tuple[CollectiveKind, float]] = Counter()
    for stretch in plan.stretches:
        for segment in stretch.segments:
            if segment.exchange is not None:
                found[segment.exchange.kind, segment.exchange.elements_per_token] += stretch.repeat
    return found


def flop(batch: Batch, *plans: ForwardPass) -> float:
    return sum(repeat * kernel_of(op, batch, Precision()).flop for repeat, op in operators_of(*plans))


@pytest.mark.parametrize("stages", [1, 2, 8, 32])
def test_the_stages_together_do_the_work_of_the_model(stages: int) -> None:
    batch = Batch(tokens=100, logits=4, attention_pairs=1000, decode_context_tokens=500, decode_sequences=4)
    pieces = replica_stages(LLAMA, tensor=2, stages=stages)
    assert len(pieces) == stages
    assert flop(batch, *pieces) == pytest.approx(flop(batch, forward_pass(LLAMA, 2)))
    assert sum(piece.parameters for piece in pieces) == pytest.approx(forward_pass(LLAMA, 2).parameters)


@pytest.mark.parametrize(
    ("tensor", "gather", "sequence_parallel", "gathered"),
    [(2, True, False, True), (2, False, False, False), (1, True, False, False), (2, True, True, False)],
)
def test_what_arrives_in_parts_is_gathered(tensor: int, gather: bool, sequence_parallel: bool, gathered: bool) -> None:
    pieces = replica_stages(LLAMA, tensor=tensor, stages=4, gather=gather, sequence_parallel=sequence_parallel)
    first = [piece.stretches[0] for piece in pieces]
    assert [each.name == "received" for each in first] == [False] + [gathered] * 3
    assert [piece.output_elements_per_token for piece in pieces[:-1]] == [4096] * 3
    for each in first[1:] if gathered else ():
        (segment,) = each.segments
        assert segment.exchange is not None
        assert (segment.exchange.kind, segment.exchange.elements_per_token) == (CollectiveKind.ALL_GATHER, 4096)
        assert (segment.operators, segment.layers) == ((), 0.0)


def test_layers_can_be_dealt_out_unevenly() -> None:
    pieces = replica_stages(LLAMA, stages=3, stage_layers=[10, 11, 11])
    assert [sum(each.repeat for each in piece.stretches if each.checkpointed) for piece in pieces] == [10, 11, 11]
    with pytest.raises(UsageError, match="32 layers cannot be divided among 3 stages"):
        replica_stages(LLAMA, stages=3)


# --- experts ------------------------------------------------------------------------------------------------------


def experts_of(plan: ForwardPass) -> dict[str, Operator]:
    return {op.name: op for _, op in operators_of(plan) if op.experts > 1}


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("load", [1.0, 1.75])
def test_a_rank_holds_whole_experts_and_does_the_work_of_their_tokens(load: float, sequence_parallel: bool) -> None:
    (plan,) = replica_stages(
        MIXTRAL, tensor=4, sequence_parallel=sequence_parallel, experts=Experts(4, load, over_tensor=True)
    )
    whole = experts_of(forward_pass(MIXTRAL))
    for name, share in experts_of(plan).items():
        assert (share.inner, share.columns) == (whole[name].inner, whole[name].columns)
        assert share.parameters == whole[name].parameters / 4
        assert share.flop_per_token == whole[name].flop_per_token / 4 * load


def test_where_all_ranks_have_all_tokens_the_results_are_added_up_as_without_expert_parallelism() -> None:
    for model in (MIXTRAL, DEEPSEEK):
        (plan,) = replica_stages(model, tensor=8, experts=Experts(8, over_tensor=True))
        assert exchanges_of(plan) == exchanges_of(forward_pass(model, 8))


@pytest.mark.parametrize(
    ("model", "layers", "chosen"), [(MIXTRAL, 32, 2), (DEEPSEEK, 58, 8)], ids=["Mixtral", "DeepSeek"]
)
@pytest.mark.parametrize("load", [1.0, 1.5])
def test_divided_tokens_go_to_their_experts_and_back(model: Model, layers: int, chosen: int, load: float) -> None:
    """Each rank has 1/8 of the tokens and sends `chosen` copies of each (Lepikhin et al. 2020, section 3.2)."""
    (plan,) = replica_stages(model, tensor=8, sequence_parallel=True, experts=Experts(8, load, over_tensor=True))
    found = exchanges_of(plan)
    sent = model.hidden_size * chosen * load / 8
    assert found[CollectiveKind.ALL_TO_ALL, sent] == 2 * layers
    assert not [kind for kind, _ in found if kind is CollectiveKind.ALL_REDUCE]
    gathers = found[CollectiveKind.ALL_GATHER, model.hidden_size]
    assert gathers == found[CollectiveKind.REDUCE_SCATTER, model.hidden_size]
    over = {s.exchange.over for each in plan.stretches for s in each.segments if s.exchange is not None}
    assert over == {"tensor"}


def touched(share: float, tokens: int) -> float:
    """Of experts that get `share` of the tokens each, on average: 1 - E[(1 - p)^T], token by token."""
    other = POPULARITY * (1 - share) / share
    return 1 - prod((other + token) / (POPULARITY + other + token) for token in range(tokens))


@pytest.mark.parametrize("tokens", [1, 4, 64, 4096])
def test_a_small_batch_reads_the_experts_that_it_touches(tokens: int) -> None:
    """Evenly over the ranks."""
    (plan,) = replica_stages(MIXTRAL, tensor=8, experts=Experts(8, over_tensor=True))
    down = experts_of(plan)["experts_down"]
    share = touched(2 / 8, tokens)
    assert down.parameters_read(tokens) == pytest.approx(14336 * 4096 * 8 * share / 8)
    assert down.rows(tokens) == pytest.approx(max(1.0, tokens * 2 / 8 / share))
    assert share <= 1 - 0.75**tokens + 1e-12


def test_the_busiest_rank_touches_more_of_its_experts() -> None:
    even, skewed = (
        experts_of(replica_stages(MIXTRAL, tensor=8, experts=Experts(8, load, over_tensor=True))[0])["experts_down"]
        for load in (1.0, 2.0)
    )
    assert skewed.parameters_read(2) / even.parameters_read(2) == pytest.approx(touched(0.5, 2) / touched(0.25, 2))
    assert skewed.rows(1000) == pytest.approx(2 * even.rows(1000), rel=1e-3)


def test_adapters_are_no_experts() -> None:
    model = with_adapters(MIXTRAL, adapters=16, rank=8)
    assert model.experts == 8
    (plan,) = replica_stages(model, tensor=8, sequence_parallel=True, experts=Experts(8, over_tensor=True))
    assert exchanges_of(plan)[CollectiveKind.ALL_TO_ALL, 4096 * 2 / 8] == 2 * 32
    shares = [op for _, op in operators_of(plan) if op.name.endswith("_adapters")]
    assert {op.experts for op in shares} == {1}
    assert shares[0].parameters * 8 == 16 * 8 * (4096 + 6144)


# --- lengths ------------------------------------------------------------------------------------------------------


def test_gaps_between_kernels_are_as_many_as_the_kernels() -> None:
    def gaps(model: Model) -> dict[str, float]:
        (plan,) = replica_stages(model)
        return {stretch.name: sum(segment.layers for segment in stretch.segments) for stretch in plan.stretches}

    assert gaps(LLAMA) == {"embedding": 1.0, "layer": 1.0, "head": 1.0}
    found = gaps(DEEPSEEK)
    # two norms, five products and a norm of latent attention, attention itself; an activation, or experts and the like
    assert found["dense_layer"] == pytest.approx(11 / 8)
    assert found["moe_layer"] == pytest.approx(16 / 8)


def test_unequal_lengths_slow_down_decode_attention_over_several_sequences() -> None:
    skewed = with_length_skew(forward_pass(LLAMA), 1.3)
    (attention,) = (op for _, op in operators_of(skewed) if op.kind is OperatorKind.DECODE_ATTENTION)
    (even,) = (op for _, op in operators_of(forward_pass(LLAMA)) if op.kind is OperatorKind.DECODE_ATTENTION)
    for sequences, factor in ((1, 1.0), (2, 1.3), (64, 1.3)):
        batch = Batch(sequences, sequences, decode_context_tokens=1000.0, decode_sequences=sequences)
        slow, fast = (kernel_of(op, batch, Precision()) for op in (attention, even))
        assert (slow.flop, slow.nbytes) == (factor * fast.flop, factor * fast.nbytes)
    assert with_length_skew(skewed, 1.0) is skewed


@pytest.mark.parametrize("name", ["paged_attention", "masked_attention", "blocked_attention"])
@pytest.mark.parametrize("tensor", [1, 4])
def test_some_decode_kernels_have_a_curve_by_sequences_times_query_heads(tensor: int, name: str) -> None:
    (plain,), (early,) = (replica_stages(LLAMA, tensor=tensor, decoded_by=each) for each in ("", name))
    batch = Batch(tokens=16, logits=16, decode_context_tokens=16e3, decode_sequences=16)
    for (_, one), (_, other) in zip(operators_of(plain), operators_of(early), strict=True):
        before, after = (kernel_of(op, batch, Precision()) for op in (one, other))
        if one.kind is OperatorKind.DECODE_ATTENTION:
            assert after == before._replace(role=name, rows=16 * LLAMA.num_attention_heads / tensor)
        else:
            assert after == before


def test_slower_products_of_experts_take_longer_but_compute_no_more() -> None:
    (plain,), (slow,) = replica_stages(MIXTRAL), replica_stages(MIXTRAL, products=ExpertProducts(2.5))
    batch = Batch(tokens=4096, logits=1, attention_pairs=4096.0**2)
    for (_, one), (_, other) in zip(operators_of(plain), operators_of(slow), strict=True):
        assert other.effort == (2.5 if one.grouped else 1.0)
        fast, lengthened = (kernel_of(op, batch, Precision()) for op in (one, other))
        assert lengthened.flop == pytest.approx(fast.flop)
        assert lengthened._replace(flop=fast.flop, effort=fast.effort) == fast
    assert any(op.grouped for _, op in operators_of(plain))


def test_padded_products_compute_whole_multiples_for_each_expert_in_steps_of_any_size() -> None:
    (plain,), (padded,) = replica_stages(MIXTRAL), replica_stages(MIXTRAL, products=ExpertProducts(padded_rows=128))
    for tokens in (1.0, 16.0, 4096.0):
        batch = Batch(tokens=tokens, logits=1, decode_sequences=1)
        for (_, one), (_, other) in zip(operators_of(plain), operators_of(padded), strict=True):
            few, all_rows = (kernel_of(op, batch, Precision()) for op in (one, other))
            if not one.grouped:
                assert all_rows == few
                continue
            rows = tokens * one.rows_per_token + MIXTRAL.experts * 127
            assert all_rows.flop == pytest.approx(few.flop * rows / (tokens * one.rows_per_token))
            assert all_rows.rows == pytest.approx(rows / MIXTRAL.experts)
            assert all_rows.nbytes > few.nbytes


def test_identical_sequences_read_the_experts_of_one_and_compute_the_rows_of_all() -> None:
    (plain,), (alike,) = replica_stages(MIXTRAL), replica_stages(MIXTRAL, products=ExpertProducts(alike=16))
    for (_, one), (_, other) in zip(operators_of(plain), operators_of(alike), strict=True):
        single, sixteen, same = (
            kernel_of(op, Batch(tokens=tokens, logits=tokens, decode_sequences=tokens), Precision())
            for op, tokens in ((one, 1.0), (one, 16.0), (other, 16.0))
        )
        assert same.flop == sixteen.flop
        if not one.grouped:
            assert same == sixteen
            continue
        assert other.parameters_read(16.0) == one.parameters_read(1.0) < one.parameters_read(16.0)
        assert other.parameters_read(0.5) == one.parameters_read(0.5), "a share of a token is no less than itself"
        assert single.nbytes < same.nbytes < sixteen.nbytes
        assert same.rows == pytest.approx(16.0), "each used expert has all sequences"


def test_a_step_without_tokens_computes_no_padding() -> None:
    (padded,) = replica_stages(MIXTRAL, products=ExpertProducts(padded_rows=128))
    for _, operator in operators_of(padded):
        if operator.grouped:
            assert kernel_of(operator, Batch(), Precision())[1:3] == (0.0, 0.0)
