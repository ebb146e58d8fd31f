"""Adapters: their weights, their work, and how many a batch touches."""

from __future__ import annotations

import pytest

from simsys.config.architectures import listed_architectures
from simsys.model.batch import Batch
from simsys.model.lora import with_adapters
from simsys.model.operators import Operator
from simsys.model.transformer import build_transformer
from simsys.model.work import Precision, kernel_of
from simsys.parallel.passes import forward_pass

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
LLAMA, MIXTRAL = build_transformer(BY_NAME["Llama3-8B"]), build_transformer(BY_NAME["Mixtral-8x7B"])
WIDTHS = {"qkv": (4096, 6144), "attention_output": (4096, 4096), "gate_up": (4096, 28672), "down": (14336, 4096)}


def adapters_of(model: object, tensor: int = 1) -> dict[str, Operator]:
    plan = forward_pass(model, tensor)  # type: ignore[arg-type]
    found = (operator for stretch in plan.stretches for operator in stretch.operators)
    return {each.name.removesuffix("_adapters"): each for each in found if each.name.endswith("_adapters")}


def test_every_linear_layer_has_one_of_each_adapter() -> None:
    model = with_adapters(LLAMA, adapters=5, rank=16)
    assert model.parameters - LLAMA.parameters == 32 * 5 * 16 * sum(map(sum, WIDTHS.values()))
    found = adapters_of(model)
    assert {name: op.flop_per_token for name, op in found.items()} == {
        name: 2 * 16 * sum(widths) for name, widths in WIDTHS.items()
    }


def test_routed_experts_and_routers_have_none() -> None:
    assert set(adapters_of(with_adapters(MIXTRAL, adapters=2, rank=8))) == {"qkv", "attention_output"}


@pytest.mark.parametrize(("sequences", "touched"), [(1, 1.0), (2, 2 - 1 / 4), (1000, 4.0)])
def test_a_step_reads_the_adapters_that_its_sequences_use(sequences: int, touched: float) -> None:
    operator = adapters_of(with_adapters(LLAMA, adapters=4, rank=8))["qkv"]
    kernel = kernel_of(operator, Batch(tokens=sequences), Precision())
    moved = sequences * (4096 + 2 * 8 + 2 * 6144) * 2
    assert kernel.nbytes - moved == pytest.approx(touched * 8 * (4096 + 6144) * 2)


def test_ranks_share_the_adapters_and_exchange_no_more() -> None:
    plain, adapted = (forward_pass(model, 8) for model in (LLAMA, with_adapters(LLAMA, adapters=3, rank=16)))
    whole = adapters_of(with_adapters(LLAMA, adapters=3, rank=16))
    for name, operator in adapters_of(with_adapters(LLAMA, adapters=3, rank=16), 8).items():
        assert operator.parameters * 8 == whole[name].parameters
        assert operator.flop_per_token * 8 == whole[name].flop_per_token
    exchanges = [
        [segment.exchange for stretch in plan.stretches for segment in stretch.segments] for plan in (plain, adapted)
    ]
    assert exchanges[0] == exchanges[1]
