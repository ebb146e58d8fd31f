"""The work of a training step: FLOP, exchanges, gradients and the optimizer's update."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.collectives import CollectiveKind
from simsys.model.cnn import build_resnet50
from simsys.model.model import Model
from simsys.model.operators import OperatorKind
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision, forward_work
from simsys.parallel.activations import Recompute
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import Part, StepSettings, TrainingPlan
from simsys.parallel.training import model_flop, training_plan

LAYERS, HIDDEN, VOCABULARY, SEQUENCE, SAMPLES = 6, 512, 8192, 256, 3
ARCHITECTURE = gpt_architecture(
    "toy", num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=8, vocab_size=VOCABULARY
)
GPT = build_transformer(ARCHITECTURE)
UNTIED = build_transformer(replace(ARCHITECTURE, tied_embeddings=False))
RESNET = build_resnet50()
HALF, FULL = Precision("bf16"), Precision("fp32", weight_bytes=4.0, activation_bytes=4.0)


def plan_of(
    model: Model, *, tensor: int = 1, by_tokens: bool = False, precision: Precision = HALF, **options: object
) -> TrainingPlan:
    batch = model.training_batch(SAMPLES, SEQUENCE if model.vocab_size else 1)
    tied = model.tied_parameters / tensor
    settings = StepSettings(precision=precision, **options)  # type: ignore[arg-type]
    plan = forward_pass(model, tensor, by_tokens)
    return training_plan([plan], batch, settings, tied_parameters=tied, tensor=tensor)


def forward_flop(model: Model) -> float:
    batch = model.training_batch(SAMPLES, SEQUENCE if model.vocab_size else 1)
    return sum(forward_work(block.operators, batch, HALF).flop for block in model.blocks)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_a_step_of_a_transformer_is_three_times_its_forward_pass(micro_batches: int) -> None:
    assert plan_of(GPT, micro_batches=micro_batches).flop == pytest.approx(3 * micro_batches * forward_flop(GPT))


def test_a_block_says_what_its_backward_pass_costs() -> None:
    """The first convolution of a network needs no gradient of its input."""
    first, *rest = RESNET.blocks
    model = replace(RESNET, blocks=(replace(first, backward_flop_ratio=1.0), *rest))
    saved = forward_flop(replace(RESNET, blocks=(first,)))
    assert saved > 0
    assert plan_of(RESNET).flop == pytest.approx(3 * forward_flop(RESNET))
    assert plan_of(model).flop == pytest.approx(3 * forward_flop(RESNET) - saved)


def test_flop_are_those_of_narayanan_2021_without_recomputation() -> None:
    """Appendix: 72·B·s·l·h²·(1 + s/(6h) + V/(12·l·h)) for forward and backward, every token attending to all."""
    assert narayanan_plan(Recompute.NONE).flop == pytest.approx(narayanan_flop(72, 12), rel=1e-12)
    assert model_flop(GPT, WHOLE_SQUARE) == pytest.approx(narayanan_flop(72, 12), rel=1e-12)


def test_flop_are_those_of_narayanan_2021_with_recomputation() -> None:
    """Eq. 3: 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)); 16·6/96 = 12·6/72: the head's 6·B·s·h·V are not recomputed."""
    assert narayanan_plan(Recompute.FULL).flop == pytest.approx(narayanan_flop(96, 16), rel=1e-12)


def test_selective_recomputation_adds_the_attention_core() -> None:
    """Its two products forward: 4·B·s²·h a layer."""
    added = narayanan_plan(Recompute.SELECTIVE).flop - narayanan_plan(Recompute.NONE).flop
    assert added == pytest.approx(4 * SAMPLES * SEQUENCE**2 * HIDDEN * LAYERS, rel=1e-9)


WHOLE_SQUARE = GPT.training_batch(SAMPLES, SEQUENCE, fused_attention=False)


def narayanan_plan(recompute: Recompute) -> TrainingPlan:
    return training_plan([forward_pass(GPT)], WHOLE_SQUARE, StepSettings(precision=HALF, recompute=recompute))


def narayanan_flop(factor: float, vocabulary: float) -> float:
    terms = 1 + SEQUENCE / (6 * HIDDEN) + VOCABULARY / (vocabulary * LAYERS * HIDDEN)
    return factor * SAMPLES * SEQUENCE * LAYERS * HIDDEN**2 * terms


def test_unfused_attention_moves_its_scores_and_computes_what_a_mask_hides() -> None:
    layer = forward_pass(GPT, 2).stretches[1]
    (fused,), (unfused,) = (
        [
            kernel
            for kernel in forward_work(tuple(layer.operators), batch, HALF).kernels
            if kernel.kind is OperatorKind.ATTENTION
        ]
        for batch in (GPT.training_batch(SAMPLES, SEQUENCE), WHOLE_SQUARE)
    )
    assert unfused.flop == pytest.approx(fused.flop * 2 * SEQUENCE / (SEQUENCE + 1))
    heads = 8 / 2
    assert unfused.nbytes - fused.nbytes == pytest.approx(2 * (6.5 + 9.5) / 3 * heads * SAMPLES * SEQUENCE**2)


def test_the_flop_of_all_tensor_parallel_ranks_are_those_of_one() -> None:
    assert 8 * plan_of(GPT, tensor=8).flop == pytest.approx(plan_of(GPT).flop, rel=1e-12)


@pytest.mark.parametrize("model", [GPT, UNTIED, RESNET], ids=["tied", "untied", "cnn"])
@pytest.mark.parametrize("nbytes_each", [2.0, 4.0])
def test_there_is_one_gradient_for_every_weight_and_tied_ones_count_once(model: Model, nbytes_each: float) -> None:
    plan = plan_of(model, gradient_bytes_per_parameter=nbytes_each)
    assert plan.gradient_bytes == pytest.approx(model.parameters * nbytes_each)
    assert all(block.gradient_bytes >= 0.0 for block in plan.blocks)


def test_gradients_of_tied_weights_belong_to_the_block_where_they_are_complete_last() -> None:
    tied, untied = plan_of(GPT), plan_of(UNTIED)
    table_bytes = 4.0 * VOCABULARY * HIDDEN
    assert tied.blocks[0].gradient_bytes == untied.blocks[0].gradient_bytes >= table_bytes
    assert tied.blocks[-1].gradient_bytes == pytest.approx(untied.blocks[-1].gradient_bytes - table_bytes)
    assert tied.flop == untied.flop  # stored once, used twice


def test_tensor_parallel_ranks_hold_gradients_of_their_share() -> None:
    whole, share = plan_of(GPT), plan_of(GPT, tensor=8)
    replicated = sum(
        operator.parameters for block in GPT.blocks for operator in block.operators if operator.split == "replicated"
    )
    assert 8 * share.gradient_bytes == pytest.approx(whole.gradient_bytes + 7 * 4.0 * replicated)


@pytest.mark.parametrize(
    ("optimizer", "precision", "nbytes_each"),
    [  # passes over fp32 values in memory, and the 16-bit copy
        ("adam", FULL, 28.0),
        ("adam", HALF, 30.0),
        ("sgd", FULL, 20.0),
        ("sgd", HALF, 22.0),
    ],
)
def test_the_optimizer_reads_and_writes_its_states(optimizer: str, precision: Precision, nbytes_each: float) -> None:
    update = plan_of(GPT, optimizer=optimizer, precision=precision).optimizer
    assert update.nbytes == pytest.approx(nbytes_each * GPT.parameters)
    assert update.flop == update.layers == 0.0


def test_blocks_come_in_forward_order_and_equal_ones_are_one_object() -> None:
    blocks = plan_of(GPT).blocks
    assert [block.name for block in blocks] == ["embedding", *["layer"] * LAYERS, "head"]
    assert len({id(block) for block in blocks}) == 3  # so that durations are computed once


@pytest.mark.parametrize("tensor", [2, 8])
def test_each_pass_through_a_layer_exchanges_two_all_reduces_of_its_activations(tensor: int) -> None:
    layer = plan_of(GPT, tensor=tensor).blocks[1]
    nbytes = SAMPLES * SEQUENCE * HIDDEN * 2.0
    for parts in (layer.forward, layer.backward):
        assert [(part.kind, part.nbytes) for part in parts] == [(CollectiveKind.ALL_REDUCE, nbytes)] * 2
    assert [part.work.flop for part in layer.backward] == [2 * part.work.flop for part in layer.forward[::-1]]


@pytest.mark.parametrize("tensor", [2, 8])
def test_embedding_and_head_exchange_hidden_states_but_never_logits(tensor: int) -> None:
    """Shoeybi et al. 2019, section 3: the loss is computed on divided logits."""
    embedding, *_, head = plan_of(GPT, tensor=tensor).blocks
    nbytes = SAMPLES * SEQUENCE * HIDDEN * 2.0
    summed = (CollectiveKind.ALL_REDUCE, nbytes)
    assert [(part.kind, part.nbytes) for part in embedding.forward] == [summed]
    assert [(part.kind, part.nbytes) for part in embedding.backward] == [(None, 0.0)]
    assert [(part.kind, part.nbytes) for part in head.forward] == [(None, 0.0)]
    assert [(part.kind, part.nbytes) for part in head.backward] == [summed]


def test_one_rank_exchanges_nothing() -> None:
    plan = plan_of(GPT)
    assert not any(part.nbytes for block in plan.blocks for part in (*block.forward, *block.backward))


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_the_host_overhead_of_a_layer_is_paid_forward_and_at_a_ratio_backward(ratio: float) -> None:
    layer = plan_of(GPT, tensor=2, backward_layers_ratio=ratio).blocks[1]
    assert sum(part.work.layers for part in layer.forward) == pytest.approx(1.0)
    assert sum(part.work.layers for part in layer.backward) == pytest.approx(ratio)


AR, AG, RS = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
NBYTES = SAMPLES * SEQUENCE * HIDDEN * 2.0
"""Of the hidden states of all tokens."""


def exchanges(parts: tuple[Part, ...]) -> list[CollectiveKind]:
    """The kinds in order; all of them carry the hidden states of all tokens."""
    assert {part.nbytes for part in parts if part.kind} <= {NBYTES}
    return [part.kind for part in parts if part.kind]


def test_sequence_parallelism_scatters_and_gathers_where_tensor_parallelism_sums() -> None:
    """Korthikanti et al. 2022, figure 5; each gathered input, which is not kept, is gathered again (§4.2.2)."""
    embedding, layer, *_, head = plan_of(GPT, tensor=4, by_tokens=True).blocks
    assert (exchanges(embedding.forward), exchanges(embedding.backward)) == ([RS], [AG])
    assert exchanges(layer.forward) == [AG, RS, AG, RS]
    assert exchanges(layer.backward) == [AG, AG, RS, AG, AG, RS]
    assert (exchanges(head.forward), exchanges(head.backward)) == ([AG], [AG, RS])


@pytest.mark.parametrize("recompute", Recompute)
@pytest.mark.parametrize("by_tokens", [False, True])
def test_recomputation_comes_before_the_backward_pass(by_tokens: bool, recompute: Recompute) -> None:
    plain = plan_of(GPT, tensor=4, by_tokens=by_tokens).blocks
    again = plan_of(GPT, tensor=4, by_tokens=by_tokens, recompute=recompute).blocks
    for before, after in zip(plain, again, strict=True):
        whole = recompute is Recompute.FULL and before.name == "layer"
        repeated = exchanges(before.forward) if whole else []
        assert exchanges(after.backward) == repeated + exchanges(before.backward)
        assert exchanges(after.forward) == exchanges(before.forward)
        work = [part.work.flop for part in after.backward if part.work.kernels]
        core = [part.work.flop for part in before.forward] if whole else work[: recompute is Recompute.SELECTIVE]
        if recompute is Recompute.HALF:
            core = [part.work.flop / 2 for part in before.forward if part.computes]
        if before.name != "layer":
            core = []
        assert work == core + [part.work.flop for part in before.backward if part.work.kernels]


def test_sequence_parallelism_computes_the_same_and_moves_less() -> None:
    """Norms work on a quarter of the tokens; products and attention are what they were."""
    whole, divided = (plan_of(GPT, tensor=4, by_tokens=by_tokens).blocks[1] for by_tokens in (False, True))
    assert divided.gradient_bytes == whole.gradient_bytes
    flop, nbytes = (
        [sum(getattr(part.work, count) for part in block.forward) for block in (whole, divided)]
        for count in ("flop", "nbytes")
    )
    assert flop[1] == pytest.approx(flop[0])
    weights = 2 * 2 * HIDDEN * 2.0  # of two norms, which every rank reads whole
    norms = 2 * 4 * NBYTES + weights
    assert nbytes[0] - nbytes[1] == pytest.approx((norms - weights) * 3 / 4)


def test_a_backward_pass_in_two_computes_again_only_once() -> None:
    once = plan_of(GPT, recompute=Recompute.FULL)
    twice = plan_of(GPT, recompute=Recompute.FULL, split_backward=True)
    assert twice.flop == pytest.approx(once.flop)
    assert sum(part.work.flop for part in twice.blocks[1].weight) == pytest.approx(
        sum(part.work.flop for part in once.blocks[1].forward)
    )
