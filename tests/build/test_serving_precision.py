"""Weights, arithmetic and cache of quantised checkpoints, beside what the settings say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.rules.findings import unlocated
from simsys.build.serving import ServingJob
from simsys.check import check_file
from simsys.check.scenario import check_scenario
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError, UsageError
from simsys.model.model import Model
from simsys.simulation import simulate_job
from tests.helpers.published_configs import (
    AWQ,
    DEEPSEEK_V3,
    FP8_BLOCK,
    KIMI_W4A16,
    LLAMA_3_1_8B,
    NVFP4,
    PUBLISHED,
    QWEN3_32B,
    W4A16,
    Config,
)

W8A8 = {**W4A16, "config_groups": {"group_0": {
    "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True},
    "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "group_size": None},
}}}  # fmt: skip
BITSANDBYTES = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


class Maker:
    """Writes a configuration and resolves a scenario with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def config(self, config: Config, *, gpu: str = "H100", serving: Any = None, **sections: Any) -> SimulationConfig:
        (self._folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        workload = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 2}
        more = {"serving": serving or {}, "workload": workload, **sections}
        model = {"huggingface": str(self._folder), **sections.pop("model", {})}
        made = SimulationConfig(**{"hardware": {"gpu": gpu}, "model": model, **more})
        return made.located_in(self._folder)

    def job(self, config: Config, **sections: Any) -> ServingJob:
        made = build_job(self.config(config, **sections))
        assert isinstance(made, ServingJob)
        return made


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def quantised(quantization: Config, model: Config = QWEN3_32B) -> Config:
    return model | {"quantization_config": quantization}


def tables(model: Model) -> float:
    """Weights of embedding and head."""
    return 2.0 * model.vocab_size * model.hidden_size


def linear(model: Model) -> float:
    """Weights of linear layers without the head."""
    norms = sum(
        op.parameters
        for block in model.blocks
        for op in block.operators
        if op.kind.value == "memory" and not op.lookup
    )
    return model.parameters - tables(model) - norms


@pytest.mark.parametrize(
    ("quantization", "compute", "each", "kv"),
    [
        (AWQ, "weight_only", 0.5 + 2 / 128, 2.0),
        (W4A16, "weight_only", 0.5 + 2 / 128, 2.0),
        (FP8_BLOCK, "fp8_block", 1 + 4 / 128**2, 2.0),
        (W8A8, "int8", 1.0, 2.0),
        ({"quant_method": "modelopt", **NVFP4}, "weight_only", 0.5 + 1 / 16, 1.0),
    ],
)
def test_the_checkpoint_says_how_weights_are_stored(
    make: Maker, quantization: Config, compute: str, each: float, kv: float
) -> None:
    job = make.job(quantised(quantization))
    stored = linear(job.model) * each + (job.model.parameters - linear(job.model)) * 2
    assert job.fixed_bytes["weights"] == pytest.approx(stored, rel=1e-6)
    assert (job.precision.compute, job.precision.kv_bytes) == (compute, kv)
    assert job.warnings() == []


def test_without_a_word_of_it_weights_are_in_bf16(make: Maker) -> None:
    job = make.job(LLAMA_3_1_8B)
    assert (job.precision.compute, job.precision.weight_bytes) == ("bf16", 2.0)


def test_blackwell_computes_in_four_bits(make: Maker) -> None:
    assert make.job(quantised({"quant_method": "modelopt", **NVFP4}), gpu="B200").precision.compute == "fp4"


def test_gpus_without_fp8_keep_weights_in_it(make: Maker) -> None:
    job = make.job(quantised(FP8_BLOCK), gpu="A100")
    assert job.precision.compute == "weight_only"
    assert job.fixed_bytes["weights"] < 36e9


def test_integers_are_computed_with_only_where_that_is_faster(make: Maker) -> None:
    assert make.job(quantised(W8A8), gpu="A100").precision.compute == "int8"
    assert make.job(quantised(W8A8), gpu="B300").precision.compute == "weight_only"


def test_operators_that_are_left_alone_stay_in_16_bit(make: Maker) -> None:
    hardware, parallelism = {"profile": "dgx-h200"}, {"tp_degree": 8}
    latent = {**KIMI_W4A16, "ignore": ["lm_head", "re:.*self_attn.*"]}
    config = DEEPSEEK_V3 | {"quantization_config": latent}
    job = make.job(config, hardware=hardware, parallelism=parallelism)
    by_name = {op.name: op for block in job.model.blocks for op in block.operators}
    sizes = {
        name: job.precision.bytes_per_weight(by_name[name]) for name in ("q_up", "experts_down", "lm_head", "router")
    }
    assert sizes == {"q_up": 2.0, "experts_down": 0.5625, "lm_head": 2.0, "router": 2.0}
    assert job.precision.dtype(by_name["q_up"]) == "bf16"


def test_a_quantised_head_is_smaller(make: Maker) -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    heads = [make.job(quantised({**gptq, "lm_head": quantised_head})) for quantised_head in (False, True)]
    saved = heads[0].fixed_bytes["weights"] - heads[1].fixed_bytes["weights"]
    assert saved == pytest.approx(tables(heads[0].model) / 2 * (2 - 0.5 - 2 / 128))


@pytest.mark.parametrize(
    ("serving", "kv"),
    [({}, 1.0), ({"kv_precision": "bf16"}, 2.0), ({"precision": "fp4"}, 1.0), ({"precision": "bf16"}, 2.0)],
)
def test_the_cache_is_as_the_checkpoint_asks_unless_the_settings_do(
    make: Maker, serving: dict[str, str], kv: float
) -> None:
    job = make.job(quantised({"quant_method": "modelopt", **NVFP4}), serving=serving, gpu="B200")
    assert job.precision.kv_bytes == kv


def test_a_contradiction_is_a_warning_and_the_settings_count(make: Maker) -> None:
    job = make.job(quantised(AWQ), serving={"precision": "fp8"})
    assert (job.precision.compute, job.precision.weight_bytes) == ("fp8", 1.0)
    (warning,) = job.warnings()
    assert str(warning) == (
        "serving.precision: weights are simulated in fp8, but the checkpoint stores them in int4 (AWQ, 4 bit in "
        "groups of 128)"
    )
    assert make.job(quantised(AWQ), serving={"precision": "int4"}).warnings() == []
    assert str(warning) in simulate_job(job).warnings


def test_what_is_not_modelled_needs_a_word_of_the_settings(make: Maker) -> None:
    with pytest.raises(UsageError, match="weights quantised by bitsandbytes: the method is not modelled"):
        make.job(quantised(BITSANDBYTES))
    job = make.job(quantised(BITSANDBYTES), serving={"precision": "int4"})
    assert [warning.message for warning in job.warnings()] == [
        "weights are simulated in int4, but the checkpoint stores them in bitsandbytes"
    ]


@pytest.mark.parametrize(
    ("quantization", "gpu", "serving", "problem"),
    [
        (BITSANDBYTES, "H100", {}, "model.huggingface: weights quantised by bitsandbytes"),
        (BITSANDBYTES, "H100", {"precision": "int4"}, ""),
        (FP8_BLOCK, "A100", {}, ""),
        (FP8_BLOCK, "V100", {}, "model.huggingface: V100-SXM-32GB does not compute in fp8_block"),
        (FP8_BLOCK, "A100", {"precision": "fp8"}, "serving.precision: A100-SXM-80GB does not compute in fp8"),
        (
            W4A16 | {"kv_cache_scheme": {"num_bits": 8, "type": "int"}},
            "H100",
            {"engine": "vllm"},
            "serving.kv_precision",
        ),
    ],
)
def test_checks_name_the_setting(
    make: Maker, quantization: Config, gpu: str, serving: dict[str, str], problem: str
) -> None:
    config = make.config(quantised(quantization, LLAMA_3_1_8B), gpu=gpu, serving=serving)
    source = unlocated(config.model_dump(exclude_unset=True))
    found = [str(each) for each in check_scenario(source, config, memory=False).errors]
    assert [each[: len(problem)] for each in found] == ([problem] if problem else [])


def test_the_assumptions_say_what_is_published_and_what_is_not_quantised(make: Maker) -> None:
    job = make.job(PUBLISHED["gpt-oss-20b"].config)
    lines = job.assumptions()
    assert lines[0].startswith("model: GptOssForCausalLM (")
    assert "; published in MXFP4, 4 bit with a scale for each 32" in lines[0]
    (line,) = [each for each in lines if each.startswith("weights in")]
    assert line == (
        "weights in mxfp4, as published (MXFP4, 4 bit with a scale for each 32), computed in bf16; embedding, head, "
        "attention_output, qkv, router in bf16; KV cache 2 bytes per element"
    )


@pytest.mark.parametrize(
    ("quantization", "error", "warning"),
    [
        (AWQ, "model.huggingface: weights quantised by awq cannot be trained", ""),
        (BITSANDBYTES, "model.huggingface: weights quantised by bitsandbytes cannot be trained", ""),
        (FP8_BLOCK, "", "weights published in FP8 with a scale for each block of 128 x 128 are trained from bf16"),
        (None, "", ""),
    ],
)
def test_training_starts_from_what_can_be_converted(
    tmp_path: Path, quantization: Config | None, error: str, warning: str
) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(LLAMA_3_1_8B | {"quantization_config": quantization}), encoding="utf-8"
    )
    file = tmp_path / "job.yaml"
    file.write_text(
        "hardware: {profile: dgx-h100}\nmodel: {huggingface: config.json, sequence_length: 512}\n"
        "parallelism: {strategy: FSDP}\ntraining: {batch_size_per_gpu: 1}\n",
        encoding="utf-8",
    )
    warnings = list[str]()
    if error:
        with pytest.raises(ConfigError, match=error):
            check_file(file)
        return
    check_file(file, warn=lambda problem: warnings.append(problem.message))
    assert warnings == ([warning] if warning else [])
