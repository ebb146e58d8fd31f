"""Kernels that the host launches: what experts and other attention count, and with which factors."""

from __future__ import annotations

import pytest

from simsys.model.model_db import load_model
from simsys.model.operators import OperatorKind
from simsys.parallel.kernel_counts import DENSE_LAUNCHES, launches_of
from simsys.parallel.replica import replica_stages

EXTRA = {"experts": 16, "latent_attention": 22, "linear_attention": 23}
"""Kernels of a layer beyond one for each operator, as `LaunchFactors` says."""


def layer_of(name):
    """The operators of the last layer of a model before its head."""
    return replica_stages(load_model(name))[0].stretches[-2].operators


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("Llama3-8B", ()),
        ("Mixtral-8x7B", ("experts",)),
        ("DeepSeek-V3", ("experts", "latent_attention")),
    ],
)
def test_each_operator_has_one_kernel_and_some_have_more(model, kinds):
    operators = layer_of(model)
    own = sum(each.kind is not OperatorKind.DECODE_ATTENTION for each in operators)
    assert launches_of(operators) * DENSE_LAUNCHES == own + sum(EXTRA[kind] for kind in kinds)
    assert {each.launches_for for each in operators if each.launches_for} == set(kinds)
    for factor in (0.5, 3.0):
        launched = launches_of(operators, dict.fromkeys(EXTRA, factor)) * DENSE_LAUNCHES
        assert launched == pytest.approx(own + factor * sum(EXTRA[kind] for kind in kinds))


def test_linear_attention_has_more_kernels():
    stretches = replica_stages(load_model("Qwen3.5-397B-A17B"))[0].stretches
    found = {each.launches_for: each.launches for stretch in stretches for each in stretch.operators}
    assert found["linear_attention"] == 1 + EXTRA["linear_attention"]


def test_factors_of_an_engine_change_layers_of_experts_alone():
    def launches(model, **factors):
        plan = replica_stages(load_model(model), launch_factors=factors)[0]
        return [segment.launches for stretch in plan.stretches for segment in stretch.segments]

    assert launches("Llama3-8B", experts=4.0) == launches("Llama3-8B")
    assert sum(launches("Mixtral-8x7B", experts=4.0)) > sum(launches("Mixtral-8x7B"))
    assert launches("Mixtral-8x7B", latent_attention=4.0) == launches("Mixtral-8x7B")
