"""Kernels of a training step that cannot do what the settings say are refused at their lines."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.errors import ConfigError


def training(**settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "num_nodes": 1, "gpus_per_node": 1},
        model={"name": "GPT2-Small", "sequence_length": 512},
        training={"batch_size_per_gpu": 1, **settings},
    )


def test_unfused_attention_skips_no_blocks() -> None:
    with pytest.raises(ConfigError, match=r"attention_block has no effect with attention eager"):
        build_job(training(attention_block=128, attention="eager"))
    build_job(training(attention_block=128))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["moe_akt"], r"unknown 'moe_akt', did you mean 'moe_act'\?; write none, selective, half, full, or a list of"),
        ("selectiv", r"unknown 'selectiv', did you mean 'selective'\?"),
        ([], "modules are named once each, and at least one is"),
        (["mlp", "mlp"], "modules are named once each"),
    ],
)
def test_unknown_modules_have_a_suggestion(given: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        training(activation_recompute=given)


def test_a_module_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"moe_act cannot be recomputed: GPT2-Small has no experts; it has core_attn"
    ):
        build_job(training(activation_recompute=["layernorm", "moe_act"]))
    config = training(activation_recompute=["mlp", "layernorm"])
    assert config.training is not None
    assert config.training.activation_recompute == ("layernorm", "mlp")
    build_job(config)


@pytest.mark.parametrize(("name", "message"), [("T5-Large", "not in both of T5-Large"), ("ResNet-50", "has no norms")])
def test_models_without_modules_are_recomputed_as_a_whole(name: str, message: str) -> None:
    config = training(activation_recompute=["layernorm"])
    config = config.model_copy(update={"model": ModelConfig(name=name)})
    with pytest.raises(ConfigError, match=message):
        build_job(config)
