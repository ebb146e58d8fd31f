"""What a rank of a training job holds: activations as in Korthikanti et al. 2022, model states as in ZeRO's table."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.architectures import listed_architectures
from simsys.model.cnn import build_resnet50
from simsys.model.model import Model
from simsys.model.transformer import TransformerArchitecture, build_transformer, gpt_architecture
from simsys.model.work import Precision
from simsys.parallel.activations import Recompute, block_memories, chunk_memory
from simsys.parallel.passes import forward_pass
from simsys.parallel.training_memory import training_memory

HIDDEN, HEADS, SEQUENCE, SAMPLES = 1024, 16, 512, 3
SBH = SEQUENCE * SAMPLES * HIDDEN
SCORES = 5 * HEADS * SEQUENCE / HIDDEN
T = 8
NONE, SELECTIVE, FULL = Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL


def gpt(layers: int) -> Model:
    """A toy with learned positions and dropout, as in the paper."""
    return build_transformer(
        gpt_architecture("toy", num_layers=layers, hidden_size=HIDDEN, num_attention_heads=HEADS, vocab_size=8192)
    )


def memory(
    model: Model,
    *,
    tensor: int = 1,
    by_tokens: bool = False,
    fused: bool = True,
    recompute: Recompute = NONE,
    **how: Any,
) -> dict[str, float]:
    batch = model.training_batch(SAMPLES, SEQUENCE, fused_attention=fused)
    plan = forward_pass(model, tensor, by_tokens)
    activations = chunk_memory(plan, batch, Precision(), recompute=recompute)
    tied = model.tied_parameters / tensor
    return training_memory([plan], [activations], Precision(), tied_parameters=tied, **how)


def per_layer(**how: object) -> float:
    """What one more layer adds to the activations."""
    return memory(gpt(5), **how)["activations"] - memory(gpt(4), **how)["activations"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "by_tokens", "recompute", "expected"),
    [
        (1, False, NONE, 34 + SCORES),
        (T, False, NONE, 10 + 24 / T + SCORES / T),
        (T, True, NONE, (34 + SCORES) / T),
        (T, False, SELECTIVE, 10 + 24 / T),
        (T, True, SELECTIVE, 34 / T),
        (1, False, FULL, 2),
        (T, False, FULL, 2),
        (T, True, FULL, 2 / T),  # a rank keeps the part of the input that it has (Megatron does, the paper's §5 not)
    ],
)
def test_activations_of_a_layer_are_those_of_table_2(
    tensor: int, by_tokens: bool, recompute: Recompute, expected: float
) -> None:
    held = per_layer(tensor=tensor, by_tokens=by_tokens, recompute=recompute, fused=False)
    assert held == pytest.approx(SBH * expected, rel=1e-12)


@pytest.mark.parametrize(
    ("tensor", "by_tokens", "expected"), [(1, False, 34), (T, False, 10 + 24 / T), (T, True, 34 / T)]
)
@pytest.mark.parametrize("recompute", [NONE, SELECTIVE])
def test_fused_attention_keeps_no_scores(tensor: int, by_tokens: bool, recompute: Recompute, expected: float) -> None:
    held = per_layer(tensor=tensor, by_tokens=by_tokens, recompute=recompute)
    assert held == pytest.approx(SBH * expected, rel=1e-12)


@pytest.mark.parametrize(
    ("recompute", "fused", "made_again"), [(FULL, True, 32), (FULL, False, 32 + SCORES), (SELECTIVE, False, SCORES)]
)
def test_what_is_computed_again_is_held_for_one_layer_at_a_time(
    recompute: Recompute, fused: bool, made_again: float
) -> None:
    four_layers = 4 * per_layer(recompute=recompute, fused=fused)
    others = memory(gpt(4))["activations"] - 4 * per_layer()  # embedding and head, which keep theirs
    held = memory(gpt(4), recompute=recompute, fused=fused)
    head = 2 * SAMPLES * SEQUENCE * (2 * HIDDEN + 2 * 8192)  # its pass is over, and what it kept given back
    all_of_it = others + four_layers + max(0.0, SBH * made_again - head)
    assert held["activations"] + held["recomputed"] == pytest.approx(all_of_it, rel=1e-12)


def degree_of(architecture: TransformerArchitecture) -> int:
    """A degree of tensor parallelism that divides the heads; 1 for the 71 of Falcon-7B."""
    return next((degree for degree in (4, 5, 2) if architecture.num_attention_heads % degree == 0), 1)


@pytest.mark.parametrize("name", [each.name for each in listed_architectures() if degree_of(each) > 1])
def test_each_technique_saves_memory_in_every_transformer(name: str) -> None:
    architecture = next(each for each in listed_architectures() if each.name == name)
    model, tensor = build_transformer(architecture), degree_of(architecture)
    parts = [
        memory(model, tensor=tensor, fused=False),
        memory(model, tensor=tensor, fused=False, recompute=SELECTIVE),
        memory(model, tensor=tensor, fused=False, recompute=SELECTIVE, by_tokens=True),
        memory(model, tensor=tensor, fused=False, recompute=FULL, by_tokens=True),
    ]
    held = [each["activations"] + each["recomputed"] for each in parts]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == 4


def test_micro_batches_in_flight_each_keep_their_activations() -> None:
    once, thrice = (memory(gpt(4), in_flight=(count,), recompute=FULL) for count in (1, 3))
    assert thrice["activations"] == pytest.approx(3 * once["activations"])
    assert thrice["recomputed"] == once["recomputed"], "only one is computed again at a time"


@pytest.mark.parametrize(("optimizer", "nbytes"), [("adam", 16.0), ("sgd", 12.0)])
def test_states_take_16_bytes_a_parameter_with_adam(optimizer: str, nbytes: float) -> None:
    """Weights, gradients and each state in fp32 (Rajbhandari et al. 2020, §3.1, without 16-bit copies)."""
    model = gpt(4)
    parts = memory(model, optimizer=optimizer)
    states = sum(parts[name] for name in ("parameters", "gradients", "optimizer"))
    assert states == pytest.approx(nbytes * model.parameters)


@pytest.mark.parametrize("recompute", list(Recompute))
def test_a_block_that_keeps_less_than_its_input_makes_nothing_again(recompute: Recompute) -> None:
    """ResNet's last block keeps a thousand values; its input, which a checkpoint would keep, has more."""
    model = build_resnet50()
    batch = model.training_batch(256, 1)
    for stretch in forward_pass(model).stretches:
        for block in block_memories(stretch, batch, Precision(), recompute=recompute):
            assert block.recomputed >= 0
