"""The work of a training step: FLOP, exchanges, gradients and the optimizer's update."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.collectives import CollectiveKind
from simsys.model.cnn import build_resnet50
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Batch, Model, Precision, forward_work
from simsys.parallel.passes import forward_pass
from simsys.parallel.training import StepSettings, TrainingPlan, training_plan

LAYERS, HIDDEN, VOCABULARY, SEQUENCE, SAMPLES = 6, 512, 8192, 256, 3
ARCHITECTURE = gpt_architecture(
    "toy", num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=8, vocab_size=VOCABULARY
)
GPT = build_transformer(ARCHITECTURE)
UNTIED = build_transformer(replace(ARCHITECTURE, tied_embeddings=False))
RESNET = build_resnet50()
HALF, FULL = Precision("bf16"), Precision("fp32", weight_bytes=4.0, activation_bytes=4.0)


def plan_of(model: Model, *, tensor: int = 1, precision: Precision = HALF, **options: object) -> TrainingPlan:
    batch = model.training_batch(SAMPLES, SEQUENCE if model.vocab_size else 1)
    tied = model.tied_parameters / tensor
    settings = StepSettings(precision=precision, **options)  # type: ignore[arg-type]
    return training_plan([forward_pass(model, tensor)], batch, settings, tied_parameters=tied, tensor=tensor)


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
    tokens = SAMPLES * SEQUENCE
    batch = Batch(tokens=tokens, logits=tokens, attention_pairs=SAMPLES * SEQUENCE**2)
    expected = 72 * tokens * LAYERS * HIDDEN**2 * (1 + SEQUENCE / (6 * HIDDEN) + VOCABULARY / (12 * LAYERS * HIDDEN))
    assert training_plan([forward_pass(GPT)], batch, StepSettings(precision=HALF)).flop == pytest.approx(
        expected, rel=1e-12
    )


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
