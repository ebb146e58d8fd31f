"""Multi-token prediction in training: the modules before the head."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.model.model_db import load_model
from simsys.model.multi_token import with_predicted_tokens
from simsys.parallel.training import model_flop


def test_a_module_of_deepseek_v3_has_its_published_size() -> None:
    """README_WEIGHTS.md of DeepSeek-V3: 11.5B unique parameters, without the shared embedding and head."""
    model = load_model("DeepSeek-V3")
    more = with_predicted_tokens(model, 1).parameters - model.parameters
    assert more / 1e9 == pytest.approx(11.5, rel=1e-2)


def test_each_module_is_a_layer_a_projection_and_a_pass_through_the_head() -> None:
    model, batch = load_model("Llama3-8B"), Batch(tokens=64.0, logits=64.0, attention_pairs=64.0 * 65 / 2)
    own = model_flop(model, batch)
    projection = 6.0 * 64 * 2 * 4096 * 4096
    only_layer = (model_flop(model, batch) - 6.0 * 64 * 4096 * 128256) / 32
    expected = own + 2 * (only_layer + projection + 6.0 * 64 * 4096 * 128256)
    assert model_flop(with_predicted_tokens(model, 2), batch) == pytest.approx(expected, rel=1e-9)


def test_modules_lie_with_the_head_on_the_last_stage() -> None:
    def memory(**training: Any) -> list[int]:
        config = SimulationConfig(
            hardware={"gpu": "H200-SXM", "num_nodes": 1, "gpus_per_node": 2},
            model={"name": "Llama3-8B", "sequence_length": 512},
            parallelism={"strategy": "PP", "pp_stages": 2, "dp_degree": 1},
            training={"batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, **training},
        )
        return [stage["parameters"] for stage in build_job(config).memory_by_stage]

    plain, more = memory(), memory(mtp_layers=1)
    assert more[0] == plain[0]
    layer = 218_112_000 + 2 * 4096 * 4096 + 3 * 4096  # a layer, the projection, two norms and the head's
    assert more[1] - plain[1] == pytest.approx(4 * layer, rel=1e-6)


def test_a_module_of_a_hybrid_has_attention_and_experts() -> None:
    model = load_model("Nemotron-3-Super")
    more = with_predicted_tokens(model, 1)
    module = more.blocks[-2]
    names = [operator.name for operator in module.operators]
    assert len(set(names)) == len(names)
    assert {"attention", "attention_output", "router", "experts_down", "lm_head"} <= set(names)
    layers = {block.name: block.parameters for block in model.blocks}
    own = 2 * 4096 * 4096 + 3 * 4096  # the projection, two norms and the head's
    assert module.parameters == layers["attention_layer"] + layers["moe_layer"] + own


def test_encoders_have_no_next_tokens() -> None:
    with pytest.raises(UsageError, match="mtp_layers needs a decoder"):
        with_predicted_tokens(load_model("BERT-Base"), 1)
