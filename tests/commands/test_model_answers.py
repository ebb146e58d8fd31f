"""What the commands say of Hugging Face models: problems at their line, warnings, and all that is known of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.report.listing import parameter_count
from tests.helpers.published_configs import (
    AWQ,
    GEMMA_2_9B,
    GEMMA_3_27B,
    LLAMA_3_1_8B,
    LLAVA_1_5_7B,
    PUBLISHED,
    QWEN3_32B,
    QWEN3_NEXT,
    Config,
)

SERVING = """\
hardware: {{gpu: H100}}
model: {{huggingface: {model}}}
serving: {{engine: vllm}}
workload: {{arrivals: {{kind: all_at_once}}, prompt_tokens: 64, output_tokens: 8, num_requests: 2}}
"""
TRAINING = """\
hardware: {profile: dgx-h100}
model: {huggingface: config.json, sequence_length: 8192}
parallelism: {strategy: FSDP}
training: {batch_size_per_gpu: 1, activation_recompute: full}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(SERVING.format(model="config.json"), encoding="utf-8")
    return tmp_path


def written(folder: Path, config: Config) -> str:
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    return str(folder / "job.yaml")


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"model_type": "mamba2"}, "5:16", "model_type: 'mamba2' cannot be simulated: layers of state-space models"),
        ({"model_type": "mamba9"}, "5:16", "model_type: unknown model_type 'mamba9'; known: arcee,"),
        ({"num_hidden_layers": 3_000_000}, "6:23", "num_hidden_layers: must be at most 10,000, not 3,000,000"),
        ({"num_hidden_layers": "32"}, "6:23", "num_hidden_layers: expected a number, got '32'"),
        ({"num_hidden_layers": 10**300}, "6:23", "num_hidden_layers: expected a number of at most 1e+100"),
        ({"rope_scaling": {"type": 3}}, "22:11", "rope_scaling.type: expected a string, got 3"),
    ],
)
def test_a_problem_stands_at_its_line(folder: Path, changes: Config, place: str, message: str) -> None:
    result = run("check", written(folder, LLAMA_3_1_8B | changes))
    assert result.exit_code == 2
    assert f"{folder / 'config.json'}:{place}: {message}" in result.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1, "a": 2}', "[" * 9999])
def test_what_is_no_configuration_is_a_problem_of_the_setting(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="utf-8")
    result = run("check", str(folder / "job.yaml"))
    assert result.exit_code == 2
    assert "config.json" in result.stderr


def test_an_unknown_type_can_be_assumed_to_be_a_llama(folder: Path) -> None:
    file = written(folder, LLAMA_3_1_8B | {"model_type": "mamba9"})
    result = run("check", file, "--set", "model.assume=llama")
    assert result.exit_code == 0
    assert "warning: --set" not in result.stderr
    assert "model_type mamba9 is simulated as if it were llama (assume)" in result.stdout
    assert run("run", file, "--set", "model.assume=llama", "--no-files").exit_code == 0
    wrong = run("check", file, "--set", "model.assume=lama")
    assert wrong.exit_code == 2
    assert "assume: unknown model type 'lama', did you mean 'llama'?" in wrong.stderr


def test_assume_is_about_hugging_face_models(folder: Path) -> None:
    text = SERVING.format(model="config.json").replace("huggingface: config.json", "name: Llama3-8B, assume: llama")
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    result = run("check", str(folder / "job.yaml"))
    assert result.exit_code == 2
    assert "assume says how a Hugging Face configuration is read" in result.stderr


def test_warnings_stand_below_the_headline_and_in_every_answer(folder: Path) -> None:
    file = written(folder, LLAVA_1_5_7B | {"vision_feature_layer": [-2, -5]})
    warning = "model.huggingface: the vision tower clip_vision_model (0.324 B parameters) uses memory"
    assert warning in run("check", file).stdout
    for answer in (run("run", file, "--no-files", "--quiet"), run("memory", file)):
        lines = " ".join(answer.stdout.split())
        assert f"warning: {warning}" in lines
    for command, key in (("run", "scenarios"), ("memory", "scenarios")):
        options = ["--no-files"] if command == "run" else []
        found = json.loads(run(command, file, "--json", *options).stdout)[key][0]["warnings"]
        assert found[0].startswith(warning)


def test_the_weights_of_a_tower_take_room_from_the_cache(folder: Path) -> None:
    sizes = []
    for vision in (GEMMA_3_27B["vision_config"], None):
        answer = json.loads(run("memory", written(folder, GEMMA_3_27B | {"vision_config": vision}), "--json").stdout)
        sizes.append(answer["scenarios"][0]["stages"][0]["weights"])
    assert sizes[0] - sizes[1] == pytest.approx(2 * 0.423e9, rel=0.02)


def test_the_first_assumption_is_the_model_as_understood(folder: Path) -> None:
    text = run("run", written(folder, QWEN3_32B | {"quantization_config": AWQ}), "--no-files").stdout
    lines = " ".join(text.split())
    assert "assumptions - model: Qwen3ForCausalLM (" in lines
    assert "32.8 B parameters, 64 layers, hidden 5120, 64/8 heads of 128, vocabulary 151,936; published" in lines


@pytest.mark.parametrize("config", [GEMMA_2_9B, QWEN3_NEXT], ids=["windows", "linear"])
def test_levels_of_detail_agree_on_training(folder: Path, config: Config) -> None:
    small = config | {"num_hidden_layers": 4, "num_experts": 8, "num_experts_per_tok": 2}
    (folder / "job.yaml").write_text(TRAINING, encoding="utf-8")
    times = [
        json.loads(run("run", written(folder, small), "--no-files", "--json", "--lod", lod).stdout)
        for lod in ("high", "medium")
    ]
    high, medium = (each["scenarios"][0]["metrics"]["mean_iteration_s"] for each in times)
    assert high == pytest.approx(medium, rel=1e-9)


def shown(path: Path | str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(run("show", "model", str(path), "--json").stdout)["facts"]
    return facts


def test_a_configuration_is_shown_from_its_file_or_folder(folder: Path) -> None:
    written(folder, PUBLISHED["gpt-oss-20b"].config)
    assert shown(folder) == shown(folder / "config.json")
    facts = shown(folder)
    assert facts["class"] == "GptOssForCausalLM"
    assert (facts["experts"], facts["experts_per_token"], facts["head_size"]) == (32, 4, 64)
    assert facts["layers_with_windows"] == {"128 tokens": 12}
    assert facts["quantization"] == {
        "published_in": "MXFP4, 4 bit with a scale for each 32",
        "precision": "mxfp4",
        "bytes_per_weight": 0.53125,
        "kv_precision": "16 bit",
        "in_16_bit": ["attention_output", "qkv", "router"],
    }
    assert parameter_count(facts["parameters"]) == "20.9 B"


def test_what_is_left_out_is_shown(folder: Path) -> None:
    written(folder, PUBLISHED["DeepSeek-V3"].config | {"memory_slots": 3})
    facts = shown(folder)
    assert facts["latent_attention"] is True
    assert facts["notes"][0].startswith("left out: 1 multi-token-prediction layer")
    assert facts["warnings"] == ["ignored a key that simsys does not know: memory_slots"]
    text = run("show", "model", str(folder)).stdout
    assert "class: DeepseekV3ForCausalLM" in text
    written(folder, QWEN3_NEXT | {"quantization_config": {"quant_method": "hqq"}})
    facts = shown(folder)
    assert facts["layers_with_linear_attention"] == 36
    assert facts["quantization"]["precision"].startswith("not modelled: weights quantised by hqq")


def test_names_are_looked_for_before_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPT2-Small", "mine"):
        (folder / name).mkdir()
        written(folder / name, LLAMA_3_1_8B)
    monkeypatch.chdir(folder)
    assert shown("GPT2-Small")["num_layers"] == 12
    assert shown("mine")["num_layers"] == shown("./GPT2-Small")["num_layers"] == 32
    missing = run("show", "model", "yours")
    assert missing.exit_code == 2
    assert "unknown model 'yours'" in missing.stderr
    assert "cannot read model configuration" in run("show", "model", "./yours").stderr
