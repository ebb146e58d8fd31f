"""Low-rank adapters of the linear layers of a model (LoRA: Hu et al. 2022), many adapters in one batch.

A token passes its sequence's adapter of each linear layer: down to `rank` features and up again. Kernels for many
adapters read the adapters of the batch (Punica: Chen et al. 2024, §4; S-LoRA: Sheng et al. 2024, §5) and are bound by
memory bandwidth. Routed experts have none.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.precision import is_linear


def with_adapters(model: Model, adapters: int, rank: int) -> Model:
    """Return the model with `adapters` adapters of each linear layer; tokens use them evenly."""
    made: dict[Block, Block] = {}
    for block in model.blocks:
        if block not in made:
            made[block] = _with_adapters(block, adapters, rank)
    return replace(model, blocks=tuple(made[block] for block in model.blocks))


def _with_adapters(block: Block, adapters: int, rank: int) -> Block:
    operators: list[Operator] = []
    for operator in block.operators:
        if _is_adapted(operator):
            operators.append(adapter(operator, adapters, rank))
        operators.append(operator)
    return block if len(operators) == len(block.operators) else replace(block, operators=tuple(operators))


def _is_adapted(operator: Operator) -> bool:
    """Whether an operator has adapters: linear layers have, except routed experts and routers."""
    dense = operator.experts == 1 and operator.split is not Split.REPLICATED
    return dense and operator.columns > 0 and is_linear(operator)


def adapter(operator: Operator, adapters: int, rank: int) -> Operator:
    """The kernels of a linear layer's adapters, divided among ranks as S-LoRA does (§6).

    Of n adapters a pass over T tokens of different sequences touches the expected n·(1 − (1 − 1/n)^T), as of experts.
    """
    inner, columns = operator.inner, operator.columns
    return Operator(
        f"{operator.name}_adapters",
        OperatorKind.MEMORY,
        Split.COLUMN,
        parameters=float(adapters * rank * (inner + columns)),
        flop_per_token=2.0 * rank * (inner + columns),
        elements_per_token=float(inner + 2 * rank + 2 * columns),
        adapters=adapters,
        per_logit=operator.per_logit,
    )
