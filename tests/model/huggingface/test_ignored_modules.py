"""Which operators patterns of module names leave in 16 bit."""

from __future__ import annotations

import pytest

from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.huggingface.ignored_modules import Patterns
from simsys.model.model import Model
from tests.helpers.published_configs import DEEPSEEK_V3, KIMI_W4A16, LLAMA_3_1_8B, MXFP4, PUBLISHED, QWEN3_NEXT, Config

ATTENTION = {"qkv", "attention_output"}
LATENT = {"qkv_down", "q_up", "kv_up", "attention_output"}
SHARED = {"shared_gate_up", "shared_down"}


def model(config: Config) -> Model:
    return model_of(read_checkpoint(config))


LLAMA, DEEPSEEK, GPT_OSS, HYBRID = map(model, (LLAMA_3_1_8B, DEEPSEEK_V3, PUBLISHED["gpt-oss-20b"].config, QWEN3_NEXT))


@pytest.mark.parametrize(
    ("of", "patterns", "left"),
    [
        (LLAMA, [], set()),
        (LLAMA, ["lm_head"], set()),
        (LLAMA, ["self_attn"], ATTENTION),
        (LLAMA, ["o_proj"], {"attention_output"}),
        (LLAMA, ["gate"], set()),
        (LLAMA, ["re:.*self_attn.*"], ATTENTION),
        (LLAMA, ["*self_attn*"], ATTENTION),
        (LLAMA, ["model.layers.*.mlp"], {"gate_up", "down"}),
        (LLAMA, ["model.language_model.layers.*.mlp.down_proj"], {"down"}),
        (LLAMA, [f"model.layers.{layer}.mlp.down_proj" for layer in range(16)], {"down"}),
        (LLAMA, ["re:(unbalanced"], set()),
        (GPT_OSS, MXFP4["modules_to_not_convert"], ATTENTION | {"router"}),
        (GPT_OSS, [], {"router"}),
        (DEEPSEEK, KIMI_W4A16["ignore"], LATENT | SHARED | {"gate_up", "down", "router"}),
        (DEEPSEEK, [f"model.layers.{layer}.self_attn*" for layer in range(61)], LATENT | {"router"}),
        (HYBRID, ["linear_attn"], {"qkvz", "linear_attention_output", "router"}),
        (HYBRID, ["re:.*mlp.experts.*"], {"experts_gate_up", "experts_down", "router"}),
    ],
)
def test_patterns_leave_operators_alone(of: Model, patterns: list[str], left: set[str]) -> None:
    found, partly = Patterns(patterns).unquantized(of)
    assert found == left
    assert partly == {}


def test_a_few_layers_are_counted() -> None:
    patterns = ["model.layers.0.mlp.down_proj", "re:model\\.layers\\.31\\..*", "model.layers.99.self_attn"]
    found, partly = Patterns(patterns).unquantized(LLAMA)
    assert found == set()
    assert partly == {"qkv": (1, 32), "attention_output": (1, 32), "gate_up": (1, 32), "down": (2, 32)}


def test_layers_that_only_some_have_are_weighed_against_these() -> None:
    """Three layers of DeepSeek-V3 have a dense MLP."""
    patterns = [f"model.layers.{layer}.mlp.{name}_proj" for layer in range(3) for name in ("gate", "up", "down")]
    assert Patterns(patterns).unquantized(DEEPSEEK)[0] == {"gate_up", "down", "router"}


def test_targets_are_all_that_is_quantised() -> None:
    found, _ = Patterns([], ["re:.*mlp\\.experts.*"]).unquantized(DEEPSEEK)
    assert found == LATENT | SHARED | {"gate_up", "down", "router"}
