"""Data-parallel ranks that share their experts: what each holds, what it computes, and how many bytes it sends."""

from __future__ import annotations

import pytest

from simsys.collectives.base import CollectiveKind
from simsys.config.architectures import listed_architectures
from simsys.errors import InternalError
from simsys.model.batch import Batch
from simsys.model.transformer import build_transformer
from simsys.model.work import Precision, amounts
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep, expert_layers, parts
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.segments import Experts, WideExperts
from simsys.parallel.serving_memory import kv_bytes_per_token

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
DEEPSEEK = build_transformer(BY_NAME["DeepSeek-V3"])
HIDDEN, EXPERTS, PER_TOKEN, LAYERS = 7168, 256, 8, 58
ROUTED = EXPERTS * 3 * HIDDEN * 2048 * LAYERS
"""Parameters of the routed experts."""
HALF = Precision()


def plan_of(attention: int, expert: int, tensor: int = 1, **more: float) -> ForwardPass:
    wide = WideExperts(attention, tensor=attention * tensor // expert, **more)
    return forward_pass(DEEPSEEK, tensor, experts=Experts(expert, wide=wide))


def step_of(plan: ForwardPass, attention: int, *, halves: bool = False, sent: bool = False) -> LockStep:
    teams = tuple(Group((rank,), "tensor") for rank in range(attention))
    everyone = Group(tuple(range(attention)), "expert")
    own, exchange, experts = parts(plan)
    return LockStep(teams, everyone, own, exchange, experts, halves=halves, sent=sent, layers=expert_layers(exchange))


def flop(plan: ForwardPass, tokens: float) -> float:
    return sum(
        each.repeat * amounts(operator, Batch(tokens), HALF, 2.0)[0]
        for each in plan.stretches
        for operator in each.operators
    )


@pytest.mark.parametrize(("attention", "expert", "tensor"), [(8, 8, 1), (8, 4, 1), (8, 1, 1), (4, 8, 2), (32, 64, 2)])
def test_a_gpu_holds_its_part_of_the_experts_and_all_of_the_rest(attention: int, expert: int, tensor: int) -> None:
    whole, plan = forward_pass(DEEPSEEK, tensor), plan_of(attention, expert, tensor)
    dense = whole.parameters - ROUTED / tensor
    assert plan.parameters == pytest.approx(dense + ROUTED / (attention * tensor), rel=1e-12)
    assert kv_bytes_per_token(plan, HALF) == 61 * (512 + 64) * 2  # latent keys and values, whole on every GPU


@pytest.mark.parametrize(("attention", "expert", "tensor"), [(8, 8, 1), (8, 2, 1), (4, 8, 2)])
def test_the_gpus_together_compute_each_token_once(attention: int, expert: int, tensor: int) -> None:
    """The experts' part of the mean tokens on every GPU is the work of all tokens of all ranks."""
    plan = plan_of(attention, expert, tensor)
    _, _, experts = parts(plan)
    each = LAYERS * PER_TOKEN * 3 * 2 * HIDDEN * 2048
    assert attention * tensor * flop(experts, 100.0) == pytest.approx(attention * 100.0 * each, rel=1e-12)


def test_the_parts_are_the_whole() -> None:
    plan = plan_of(8, 8)
    own, exchange, experts = parts(plan)
    assert own.parameters + experts.parameters == pytest.approx(plan.parameters, rel=1e-12)
    assert flop(own, 10.0) + flop(experts, 10.0) == pytest.approx(flop(plan, 10.0), rel=1e-12)
    assert exchange.parameters == 0.0
    assert expert_layers(exchange) == LAYERS


def test_a_model_without_shared_experts_has_no_parts() -> None:
    with pytest.raises(InternalError, match="no experts to share"):
        parts(forward_pass(DEEPSEEK, 2))


@pytest.mark.parametrize("tensor", [1, 2])
def test_gathered_tokens_are_those_of_all_ranks(tensor: int) -> None:
    """Every GPU receives all tokens once, and the results of all are reduced and scattered."""
    _, exchange, _ = parts(plan_of(8, 8 * tensor, tensor))
    kinds = [segment.exchange for each in exchange.stretches for segment in each.segments]
    assert [(each.kind, each.over) for each in kinds if each is not None] == [
        (CollectiveKind.ALL_GATHER, "expert"),
        (CollectiveKind.REDUCE_SCATTER, "expert"),
    ]
    sizes = {each.nbytes(Batch(10.0), 2.0) for each in kinds if each is not None}
    assert sizes == {8 * 10 * HIDDEN * 2.0}


@pytest.mark.parametrize("tensor", [1, 2])
def test_sent_tokens_are_a_ranks_own(tensor: int) -> None:
    """A GPU sends its part of the tokens of its rank, each to its experts; in fp8 half the bytes."""
    _, exchange, _ = parts(plan_of(8, 8 * tensor, tensor, copies=8.0, sent_share=0.5))
    there, back = (s.exchange for each in exchange.stretches for s in each.segments if s.exchange is not None)
    assert there.kind is back.kind is CollectiveKind.ALL_TO_ALL
    assert back.nbytes(Batch(10.0), 2.0) == 10 * 8 * HIDDEN * 2.0 / tensor
    assert there.nbytes(Batch(10.0), 2.0) == 10 * 8 * HIDDEN * 1.0 / tensor


def test_ranks_of_several_gpus_gather_the_results_of_their_tokens() -> None:
    own, _, _ = parts(plan_of(4, 8, 2))
    gathers = [
        each.repeat
        for each in own.stretches
        for segment in each.segments
        if segment.exchange is not None and segment.exchange.kind is CollectiveKind.ALL_GATHER
    ]
    assert sum(gathers) == LAYERS + 1  # and the logits


def test_the_rank_with_most_tokens_decides_where_tokens_are_sent() -> None:
    plan = plan_of(8, 8)
    assert step_of(plan, 8, sent=True).exchanged_tokens(10.0, 40.0) == 40.0
    assert step_of(plan, 8).exchanged_tokens(10.0, 40.0) == 10.0
    assert step_of(plan, 8).mean_tokens(73.0, 7) == 10.0  # a rank without requests passes one token
