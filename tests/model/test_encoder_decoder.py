"""Encoder-decoder transformers: FLOP, activations, exchanges and messages of training, counted by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.collectives import CollectiveKind
from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.model.operators import OperatorKind, Pairs
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.work import Precision, forward_work
from simsys.parallel.activations import Recompute, chunk_memory
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.plan import Part, StepSettings, TrainingPlan
from simsys.parallel.stages import partition
from simsys.parallel.training import model_flop, training_plan

HIDDEN, HEADS, VOCABULARY, SAMPLES, SOURCE, TARGET = 1024, 16, 8192, 3, 512, 128
SBH, UBH = SOURCE * SAMPLES * HIDDEN, TARGET * SAMPLES * HIDDEN
"""Elements of a hidden state of all the encoder's and of all the decoder's tokens."""
NONE, SELECTIVE, FULL = Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL
T = 8
AR, AG, RS = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER


def architecture(
    encoder: int = 4, decoder: int = 4, *, head_size: int = HIDDEN // HEADS, mlp: int = 4 * HIDDEN, **changes: object
) -> TransformerArchitecture:
    """In the style of T5, with dropout; its width is 16 heads of 64 as in GPT unless told otherwise."""
    values: dict[str, object] = {
        "name": "toy",
        "num_layers": encoder,
        "decoder_layers": decoder,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_size": head_size,
        "intermediate_size": mlp,
        "gated_mlp": False,
        "vocab_size": VOCABULARY,
        "tied_embeddings": True,
        "max_context_tokens": 1024,
        "dropout": True,
        "causal": False,
    }
    return TransformerArchitecture(**(values | changes))  # type: ignore[arg-type]


def toy(encoder: int = 4, decoder: int = 4, **changes: object) -> Model:
    return build_transformer(architecture(encoder, decoder, **changes))  # type: ignore[arg-type]


def batch_of(model: Model, *, fused: bool = True) -> Batch:
    return model.training_batch(SAMPLES, SOURCE, TARGET, fused_attention=fused)


def plan_of(
    model: Model, *, tensor: int = 1, by_tokens: bool = False, fused: bool = True, recompute: Recompute = NONE
) -> TrainingPlan:
    settings = StepSettings(precision=Precision(), recompute=recompute)
    tied = model.tied_parameters / tensor
    whole = forward_pass(model, tensor, by_tokens)
    return training_plan([whole], batch_of(model, fused=fused), settings, tied_parameters=tied, tensor=tensor)


ENCODER, DECODER, WIDTH, MLP = 3, 5, HEADS * 32, 2560
"""Layers, and widths of attention and MLP unlike those of the residual stream, as in T5-11B."""
UNEVEN = toy(ENCODER, DECODER, head_size=32, mlp=MLP)


def forward_flop(pairs: float, *, layers: bool = True, attention: bool = True, head: bool = True) -> float:
    """Of one forward pass, `pairs` being those of the decoder's attention in one sequence; 2 FLOP a multiply-add.

    Products: queries, keys, values and output (4 matrices of hidden × width) and two of the MLP for every token on
    both sides; in the decoder queries and output of cross-attention for its own tokens, keys and values for the
    encoder's; the head for the decoder's tokens. Attention: scores and their product with the values.
    """
    matrix, mlp = HIDDEN * WIDTH, 2 * HIDDEN * MLP
    encoder = ENCODER * 2 * SOURCE * (4 * matrix + mlp)
    decoder = DECODER * (2 * TARGET * (6 * matrix + mlp) + 2 * SOURCE * 2 * matrix)
    cores = 4 * WIDTH * (ENCODER * SOURCE**2 + DECODER * (pairs + SOURCE * TARGET))
    logits = 2 * TARGET * HIDDEN * VOCABULARY
    return SAMPLES * (layers * (encoder + decoder) + attention * cores + head * logits)


@pytest.mark.parametrize(("fused", "pairs"), [(True, TARGET * (TARGET + 1) / 2), (False, TARGET**2)])
def test_flop_of_a_step_are_those_of_its_products(fused: bool, pairs: float) -> None:
    """Forward and twice as much backward; only the decoder's own attention has a causal mask to skip."""
    step = 3 * forward_flop(pairs)
    assert plan_of(UNEVEN, fused=fused).flop == pytest.approx(step, rel=1e-9)
    full = step + forward_flop(pairs, head=False)
    assert plan_of(UNEVEN, fused=fused, recompute=FULL).flop == pytest.approx(full, rel=1e-9)
    selective = step + forward_flop(pairs, layers=False, head=False)
    assert plan_of(UNEVEN, fused=fused, recompute=SELECTIVE).flop == pytest.approx(selective, rel=1e-9)


def test_flop_for_mfu_are_those_of_all_pairs() -> None:
    flop = model_flop(UNEVEN, batch_of(UNEVEN, fused=False))
    assert flop == pytest.approx(3 * forward_flop(TARGET**2), rel=1e-9)


@pytest.mark.parametrize("by_tokens", [False, True])
def test_the_flop_of_all_tensor_parallel_ranks_are_those_of_one(by_tokens: bool) -> None:
    divided = plan_of(UNEVEN, tensor=T, by_tokens=by_tokens)
    assert T * divided.flop == pytest.approx(plan_of(UNEVEN).flop, rel=1e-12)


def test_a_batch_counts_the_tokens_and_pairs_of_both_sides() -> None:
    model = toy(decoder_sequence_length=100)
    assert (model.family, model.sequence_length, model.decoder_sequence_length) == ("encoder_decoder", 1024, 100)
    assert toy().decoder_sequence_length == 1024
    fused, unfused = (model.training_batch(2, 10, fused_attention=each) for each in (True, False))
    assert (fused.tokens, fused.logits, fused.attention_pairs, fused.cross_pairs) == (20, 200, 200, 2000)
    assert (fused.decoder_pairs, unfused.decoder_pairs) == (2 * 5050, 2 * 10000)
    assert unfused._replace(decoder_pairs=fused.decoder_pairs, unfused_attention=False) == fused
    assert fused + unfused == Batch(40, 400, 400, 0, 0, 0, 30100, 4000, unfused_attention=True)


def test_cross_attention_reads_keys_and_values_of_the_encoder() -> None:
    operators = {o.name: o for o in toy().blocks[-2].operators}
    attention, batch = operators["cross_attention"], batch_of(toy())
    (kernel,) = forward_work([attention], batch, Precision()).kernels
    assert kernel.nbytes == 2 * (2 * UBH + 2 * SBH)
    (unfused,) = forward_work([attention], batch_of(toy(), fused=False), Precision()).kernels
    assert unfused.nbytes - kernel.nbytes == pytest.approx(2 * 16 / 3 * HEADS * SAMPLES * SOURCE * TARGET)
    (share,) = (o for o in forward_pass(toy(), T).stretches[-2].operators if o.name == "cross_attention")
    (divided,) = forward_work([share], batch_of(toy(), fused=False), Precision()).kernels
    assert (T * divided.flop, T * divided.nbytes) == pytest.approx((unfused.flop, unfused.nbytes))
    pairs = {o.name: o.pairs for o in operators.values() if o.kind is OperatorKind.ATTENTION}
    assert pairs == {"attention": Pairs.DECODER, "cross_attention": Pairs.CROSS}


@pytest.mark.parametrize(
    ("changes", "final_norms"),
    [
        ({}, True),
        ({"learned_positions": True, "biases": True, "post_norm": True}, False),
        ({"tied_embeddings": False}, True),
    ],
    ids=["T5", "BART", "T5 v1.1"],
)
def test_parameters_are_those_of_the_matrices(changes: dict[str, bool], final_norms: bool) -> None:
    biases = "biases" in changes
    norm = HIDDEN * (1 + biases)
    attention = 4 * (HIDDEN**2 + HIDDEN * biases)
    layer = attention + 8 * HIDDEN**2 + 5 * HIDDEN * biases + 2 * norm
    tables = VOCABULARY * HIDDEN * (1 if changes.get("tied_embeddings", True) else 2)
    positions = 2 * 1024 * HIDDEN * changes.get("learned_positions", False)
    model = toy(2, 3, **changes)
    assert model.parameters == 5 * layer + 3 * (attention + norm) + tables + positions + 2 * norm
    norms = [o.name for block in (model.blocks[0], model.blocks[-1]) for o in block.operators if "norm" in o.name]
    assert norms == (["encoder_norm", "final_norm"] if final_norms else ["embedding_norm", "decoder_embedding_norm"])


def activations(chunk: Model | ForwardPass, fused: bool = True, recompute: Recompute = NONE, **how: int) -> float:
    """Bytes of activations that a micro-batch keeps."""
    plan = chunk if isinstance(chunk, ForwardPass) else forward_pass(chunk, how["tensor"], bool(how["by_tokens"]))
    return chunk_memory(plan, batch_of(toy(), fused=fused), Precision(), recompute=recompute).kept


SELF, CROSS = 5 * HEADS * TARGET / HIDDEN, 5 * HEADS * SOURCE / HIDDEN
"""Scores of a decoder layer in units of u·b·h bytes."""


@pytest.mark.parametrize(
    ("tensor", "by_tokens", "recompute", "fused", "of_target", "of_source"),
    [
        (1, False, NONE, True, 43, 4),
        (1, False, NONE, False, 43 + SELF + CROSS, 4),
        (T, False, NONE, False, 15 + (28 + SELF + CROSS) / T, 4 / T),
        (T, True, NONE, False, (43 + SELF + CROSS) / T, 4 / T),
        (T, False, SELECTIVE, False, 15 + 28 / T, 4 / T),
        (T, True, SELECTIVE, False, 43 / T, 4 / T),
        (1, False, FULL, False, 2, 0),
        (T, False, FULL, True, 2, 0),
        (T, True, FULL, True, 2 / T, 0),
    ],
)
def test_activations_of_a_decoder_layer_are_its_tensors(
    tensor: int, by_tokens: bool, recompute: Recompute, fused: bool, of_target: float, of_source: float
) -> None:
    """Korthikanti et al. 2022, table 2, and cross-attention.

    For each token of the decoder 34 bytes × hidden as in GPT, and for cross-attention 9: the inputs of norm and query
    projection (4) and a mask (1), which are whole, and queries and the input of the output projection (4). For each
    token of the encoder keys and values (4).
    """
    more, fewer = (
        activations(toy(2, layers), fused, recompute, tensor=tensor, by_tokens=by_tokens) for layers in (5, 4)
    )
    assert more - fewer == pytest.approx(UBH * of_target + SBH * of_source, rel=1e-12)


@pytest.mark.parametrize(("tensor", "by_tokens", "whole"), [(1, False, 1.0), (T, False, 1.0), (T, True, 1 / T)])
def test_all_decoder_layers_keep_the_output_of_the_encoder_once(tensor: int, by_tokens: bool, whole: float) -> None:
    """What a model keeps besides its layers: dropout masks, inputs of final norms and head, that output, logits."""
    layers = [
        activations(toy(encoder, decoder), tensor=tensor, by_tokens=by_tokens)
        for encoder, decoder in ((2, 4), (3, 4), (2, 5))
    ]
    besides = layers[0] - 2 * (layers[1] - layers[0]) - 4 * (layers[2] - layers[0])
    masks, norms, shared = SBH + UBH, 2 * SBH + 4 * UBH, 2 * SBH
    logits = 4 * SAMPLES * TARGET * VOCABULARY / tensor
    # The masks of an embedding are counted as whole.
    assert besides == pytest.approx(whole * (masks + norms + shared) + logits, rel=1e-12)


def test_a_stage_of_decoder_layers_keeps_the_output_of_the_encoder_it_is_handed() -> None:
    first, *_, last = (stage[0] for stage in partition(forward_pass(toy(4, 4)), 4))
    assert (first.shared_elements_per_token, last.shared_elements_per_token) == (0, HIDDEN)
    without_head = ForwardPass("middle", last.stretches[:1])
    assert activations(without_head) == pytest.approx(2 * (43 * UBH + 4 * SBH) + 2 * SBH, rel=1e-12)


@pytest.mark.parametrize("tensor", [1, T])
def test_stages_hand_on_the_hidden_states_of_both_sides(tensor: int) -> None:
    """The decoder's embeddings pass through the encoder's layers, and the encoder's output through the decoder's."""
    model = toy(4, 4)
    stages = partition(forward_pass(model, tensor), 4)
    plans = [training_plan(s, batch_of(model), StepSettings(precision=Precision()), tensor=tensor) for s in stages]
    nbytes = 2 * (SBH + UBH) / tensor
    assert [plan.handed_bytes for plan in plans[:-1]] == [(nbytes,)] * 3
    assert [plan.returned_bytes for plan in plans] == [(0,), *[(nbytes,)] * 3]


@pytest.mark.parametrize("layers", [(7, 1), (1, 7), (4, 4)])
def test_every_layer_counts_when_stages_are_made(layers: tuple[int, int]) -> None:
    stages = [stage[0] for stage in partition(forward_pass(toy(*layers)), 4)]
    names = [[stretch.name for stretch in stage.stretches for _ in range(stretch.repeat)] for stage in stages]
    assert [name for stage in names for name in stage if "layer" in name] == [
        *["layer"] * layers[0],
        *["decoder_layer"] * layers[1],
    ]
    assert [sum("layer" in name for name in stage) for stage in names] == [2, 2, 2, 2]
    assert [stage.has_head for stage in stages] == [False, False, False, True]


def exchanges(parts: tuple[Part, ...]) -> Counter[tuple[CollectiveKind, str]]:
    """Collectives by kind and by whose hidden states they carry."""
    sides = {2.0 * SBH: "encoder", 2.0 * UBH: "decoder"}
    return Counter((part.kind, sides[part.nbytes]) for part in parts if part.kind)


def test_tensor_parallelism_sums_three_times_in_a_decoder_layer_and_the_gradient_of_the_encoders_output() -> None:
    """Shoeybi et al. 2019, §3: partial sums in forward order, gradients of what column-split operators read."""
    embedding, layer, *_, decoder_layer, head = plan_of(toy(), tensor=T).blocks
    assert exchanges(embedding.forward) == {(AR, "encoder"): 1, (AR, "decoder"): 1}
    assert exchanges(embedding.backward) == {}
    assert exchanges(layer.forward) == exchanges(layer.backward) == {(AR, "encoder"): 2}
    assert exchanges(decoder_layer.forward) == {(AR, "decoder"): 3}
    assert exchanges(decoder_layer.backward) == {(AR, "decoder"): 3, (AR, "encoder"): 1}
    assert exchanges(head.forward) == {}
    assert exchanges(head.backward) == {(AR, "decoder"): 1}


def test_sequence_parallelism_gathers_and_scatters_each_side_by_itself() -> None:
    """Korthikanti et al. 2022, §4.2.2; every gathered input is gathered again in the backward pass."""
    embedding, *_, decoder_layer, head = plan_of(toy(), tensor=T, by_tokens=True).blocks
    assert exchanges(embedding.forward) == {(RS, "encoder"): 1, (RS, "decoder"): 1}
    assert exchanges(embedding.backward) == {(AG, "encoder"): 1, (AG, "decoder"): 1}
    forward = {(AG, "decoder"): 3, (RS, "decoder"): 3, (AG, "encoder"): 1}
    assert exchanges(decoder_layer.forward) == forward
    backward = {(AG, "decoder"): 6, (RS, "decoder"): 3, (AG, "encoder"): 1, (RS, "encoder"): 1}
    assert exchanges(decoder_layer.backward) == backward
    assert exchanges(head.forward) == {(AG, "decoder"): 1}
    assert exchanges(head.backward) == {(AG, "decoder"): 1, (RS, "decoder"): 1}


@pytest.mark.parametrize("tensor", [1, T])
def test_context_parallelism_sends_keys_and_values_of_each_side_around(tensor: int) -> None:
    """Liu et al. 2023, §3: the decoder's own to its attention, the encoder's to cross-attention."""
    parts, model = 4, toy()
    settings, batch = StepSettings(precision=Precision()), batch_of(model)
    plan = training_plan([forward_pass(model, tensor, context_degree=parts)], batch.part(parts), settings)
    assert parts * tensor * plan.flop == pytest.approx(plan_of(model).flop, rel=1e-12)
    layer, decoder_layer = plan.blocks[1], plan.blocks[-2]
    of_source, of_target = (2 * 2.0 * elements / parts / tensor for elements in (SBH, UBH))
    assert sent(layer.forward) == {of_source: parts - 1}
    assert sent(decoder_layer.forward) == {of_source: parts - 1, of_target: parts - 1}
    backward = {2 * of_source: parts - 1, of_source: 1, 2 * of_target: parts - 1, of_target: 1}
    assert sent(decoder_layer.backward) == backward
    sums = Counter(part.nbytes for part in decoder_layer.backward if part.kind is AR)
    assert sums == ({2.0 * UBH / parts: 3, 2.0 * SBH / parts: 1} if tensor > 1 else {})


def sent(parts: tuple[Part, ...]) -> Counter[float]:
    """How many messages of how many bytes go around."""
    return Counter(part.nbytes for part in parts if part.kind is CollectiveKind.SEND_RECV)


def test_one_gradient_for_every_weight_and_the_shared_table_counts_once() -> None:
    plan = plan_of(UNEVEN)
    assert plan.gradient_bytes == pytest.approx(4 * UNEVEN.parameters, rel=1e-12)
    assert all(rows > 0 for block in plan.blocks for rows, _, _ in block.matrices)
