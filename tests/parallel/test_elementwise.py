"""Element-wise kernels that are less fused move more bytes."""

from __future__ import annotations

from dataclasses import replace

from simsys.model.model_db import load_model
from simsys.model.precision import Precision
from simsys.parallel.elementwise import EAGER_NORM, carried_out
from simsys.parallel.plan import StepSettings

PLAIN = StepSettings(precision=Precision())


def test_unfused_kernels_of_experts_move_more_for_each_copy_of_a_token() -> None:
    operators = load_model("Qwen3-30B-A3B").blocks[1].operators
    ratios = {
        after.name: after.elements_per_token / before.elements_per_token
        for before, after in zip(
            operators, carried_out(operators, replace(PLAIN, expert_elementwise=4.0, eager_norms=True)), strict=True
        )
        if before.elements_per_token
    }
    assert {name for name, ratio in ratios.items() if ratio == 4.0} == {"experts_permutation", "experts_activation"}
    assert {name for name, ratio in ratios.items() if ratio == EAGER_NORM} >= {"attention_norm", "mlp_norm"}


def test_the_factor_of_experts_replaces_that_of_other_kernels() -> None:
    """The kernels of experts are multiplied by `elementwise` afterwards, as all are."""
    operators = load_model("Qwen3-30B-A3B").blocks[1].operators
    same = replace(PLAIN, elementwise=1.6, expert_elementwise=1.6)
    assert carried_out(operators, same) is operators
