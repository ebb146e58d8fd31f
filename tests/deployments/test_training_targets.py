"""Training targets: what is written is read back into an equal scenario, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from simsys import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.deployments import EmittedFile, emit, read_back, target_of
from simsys.deployments.deployment import deployment_of
from simsys.deployments.emission import canonical_settings
from simsys.deployments.megatron_model import model_arguments
from simsys.errors import ConfigError, UsageError
from tests.helpers.places import ROOT
from tests.helpers.random_training import training_deployment
from tests.helpers.thorough import cases

ENGINES = {
    "torchrun-megatron": "megatron",
    "torchtitan": "torchtitan",
    "deepspeed": "deepspeed",
    "accelerate": "pytorch-fsdp",
    "slurm": "megatron",
}
TRAINING = ROOT / "experiments" / "training.yaml"


def canonical(config: SimulationConfig, target: str) -> dict[str, Any]:
    tool = target_of(target).chosen(config)
    return canonical_settings(tool, deployment_of(config, tool.releases[0], None))


def scenario(engine: str, **changes: Any) -> SimulationConfig:
    data: dict[str, Any] = {
        "name": "x",
        "hardware": {"profile": "dgx-h100", "num_nodes": 2},
        "model": {"name": "Llama3-8B"},
        "parallelism": changes.pop("parallelism", {"strategy": "FSDP"}),
        "training": {"batch_size_per_gpu": 1, "engine": engine, **changes},
    }
    return SimulationConfig.model_validate(data)


def refused(config: SimulationConfig, target: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        emit(config, target)
    return {problem.path: problem.message for problem in caught.value.problems}


@pytest.mark.parametrize("target", ENGINES)
def test_random_scenarios_are_read_back_or_each_setting_without_an_option_is_named(target: str) -> None:
    named, equal = set[str](), 0
    for seed in range(cases(400 if target in ("torchtitan", "deepspeed") else 120, part=2)):
        try:
            config = SimulationConfig.model_validate(training_deployment(seed, ENGINES[target]))
        except ValidationError:
            continue
        try:
            files = emit(config, target)
        except ConfigError as error:
            given = {*canonical(config, target), "parallelism.sequence_parallel", "parallelism.pp_stages"}
            paths = {problem.path for problem in error.problems}
            assert paths <= given, paths - given
            named |= paths
            continue
        again = read_back(target, files, config)
        assert canonical(again, target) == canonical(config, target)
        assert [file.text for file in emit(again, target)] == [file.text for file in files]
        equal += 1
    assert len(named) > 3
    assert equal > 15


@pytest.mark.parametrize(
    "name",
    [
        "gpt3-175b-tp8-pp8-interleaved-512xA100",
        "llama3.1-405b-tp8-cp2-pp8-512xH100",
        "mixtral-8x7b-tp2-ep8-pp4-64xH100",
    ],
)
@pytest.mark.parametrize("target", ["torchrun-megatron", "slurm"])
def test_published_layouts_of_megatron_are_read_back(target: str, name: str) -> None:
    config = SimulationConfig.from_yaml(TRAINING, name)
    again = read_back(target, emit(config, target), config)
    assert canonical(again, target) == canonical(config, target)


def test_the_line_of_megatron() -> None:
    config = SimulationConfig.from_yaml(TRAINING, "llama3.1-405b-tp8-cp2-pp8-512xH100")
    (file,) = emit(config, "torchrun-megatron")
    for words in (
        "exec torchrun \\\n  --nnodes 64 \\\n  --nproc-per-node 8",
        "--num-layers 126",
        "--num-query-groups 8",
        "--decoder-first-pipeline-num-layers 15",
        "--micro-batch-size 1 \\\n  --global-batch-size 256",
        "--use-distributed-optimizer",
        "--bf16",
    ):
        assert words in file.text


def test_sizes_of_several_models_have_different_arguments() -> None:
    from simsys.config.architectures import listed_models

    found = {each.architecture.name: model_arguments(each.architecture) for each in listed_models()}
    assert found["BERT-Large"] is None
    assert found["Nemotron-3-Super"] is None
    assert found["Llama3-8B"] != found["Llama-3.1-8B"]
    assert found["Mixtral-8x7B"] is not None
    assert found["Mixtral-8x7B"]["num-experts"] == 8
    assert found["GPT2-XL"] is not None
    assert "swiglu" not in found["GPT2-XL"]


def test_a_model_that_megatron_has_no_arguments_for_is_named() -> None:
    config = scenario("megatron", parallelism={}).model_copy(update={"model": ModelConfig(name="T5-11B")})
    assert "T5-11B cannot be expressed" in refused(config, "torchrun-megatron")["model.name"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["layernorm", "mlp"], "--recompute-granularity selective \\\n  --recompute-modules layernorm mlp"),
        (["mlp"], "--recompute-modules mlp"),
        ("selective", "--recompute-granularity selective"),
        ("full", "--recompute-method uniform"),
    ],
)
def test_recomputed_modules_of_megatron(given: Any, words: str) -> None:
    config = scenario("megatron", parallelism={"strategy": "ZERO1"}, activation_recompute=given)
    (file,) = emit(config, "torchrun-megatron")
    assert words in file.text
    again = read_back("torchrun-megatron", [file], config)
    assert again.training is not None
    assert again.training.activation_recompute == (given if isinstance(given, str) else tuple(given))
    half = scenario("megatron", parallelism={"strategy": "ZERO1"}, activation_recompute="half")
    assert "half cannot be expressed" in refused(half, "torchrun-megatron")["training.activation_recompute"]


def test_the_json_of_deepspeed() -> None:
    config = scenario("deepspeed", parallelism={"strategy": "ZERO2"}, gradient_accumulation_steps=4)
    (file,) = emit(config, "deepspeed")
    data = json.loads(file.text)
    assert data["train_batch_size"] == 64
    assert data["zero_optimization"] == {"stage": 2, "overlap_comm": True}
    assert data["bf16"] == {"enabled": True}
    assert (
        "the program decides"
        in refused(scenario("deepspeed", activation_recompute="full"), "deepspeed")["training.activation_recompute"]
    )
    layout = {"strategy": "TP_ZERO1", "tp_degree": 2}
    assert set(refused(scenario("deepspeed", parallelism=layout), "deepspeed")) == {
        "parallelism.strategy",
        "parallelism.tp_degree",
    }


def test_the_yaml_of_accelerate() -> None:
    config = scenario("pytorch-fsdp", parallelism={"strategy": "HSDP"}, options={"shard_size": 8})
    (file,) = emit(config, "accelerate")
    data = yaml.safe_load(file.text)
    assert data["parallelism_config"]["parallelism_config_dp_replicate_size"] == 2
    assert data["fsdp_config"]["fsdp_version"] == 2
    assert data["num_processes"] == 16
    other = refused(scenario("pytorch-fsdp", parallelism={"strategy": "DDP"}), "accelerate")
    assert "DDP cannot be expressed" in other["parallelism.strategy"]


def test_overrides_of_torchtitan() -> None:
    layout = {"strategy": "TP_PP_FSDP", "tp_degree": 2, "pp_stages": 2, "sequence_parallel": True}
    config = scenario("torchtitan", parallelism=layout, gradient_accumulation_steps=8, activation_recompute="full")
    (file,) = emit(config, "torchtitan")
    assert "--training.local_batch_size 8" in file.text
    assert "--training.global_batch_size 32" in file.text
    assert "--activation_checkpoint.mode full" in file.text
    without = scenario("torchtitan", parallelism={**layout, "sequence_parallel": False})
    assert "parallelism.sequence_parallel" in refused(without, "torchtitan")


def test_slurm_starts_the_launcher_of_the_engine() -> None:
    job, launch = emit(scenario("torchtitan"), "slurm")
    assert "#SBATCH --nodes=2" in job.text
    assert "#SBATCH --gpus-per-node=8" in job.text
    assert "srun sh train.sh" in job.text
    assert "torchtitan.train" in launch.text
    changed = EmittedFile(job.name, job.text.replace("--nodes=2", "--nodes=3"))
    with pytest.raises(UsageError, match="differ in their numbers of nodes"):
        read_back("slurm", [changed, launch], scenario("torchtitan"))


def test_ranks_that_do_not_fill_nodes_are_refused() -> None:
    config = scenario("megatron", parallelism={"strategy": "DDP", "dp_degree": 12})
    assert "12 ranks do not fill nodes of 8 GPUs" in refused(config, "torchrun-megatron")["parallelism.dp_degree"]


def test_a_scenario_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="vLLM is for serving, and x is training"):
        emit(scenario("megatron"), "vllm")


def test_scripts_are_valid_shell(tmp_path: Path) -> None:
    import subprocess

    for target in ("torchrun-megatron", "slurm", "torchtitan"):
        for file in emit(scenario(ENGINES[target]), target):
            (tmp_path / file.name).write_text(file.text)
            subprocess.run(["bash", "-n", str(tmp_path / file.name)], check=True)


def test_a_mixture_with_latent_attention_and_shared_experts_in_megatron() -> None:
    parallelism = {"strategy": "EP_ZERO1", "ep_degree": 8, "shared_expert_overlap": True}
    settings = {"parallelism": parallelism, "activation_recompute": ["mla_up_proj", "moe_act"], "mtp_layers": 1}
    config = scenario("megatron", **settings)
    config = config.model_copy(update={"model": ModelConfig(name="DeepSeek-V3", sequence_length=4096)})
    (file,) = emit(config, "torchrun-megatron")
    for option in (
        "--moe-shared-expert-overlap",
        "--recompute-modules mla_up_proj moe_act",
        "--mtp-num-layers 1",
        "--multi-latent-attention",
        "--moe-shared-expert-intermediate-size 2048",
        "--moe-layer-freq '([0]*3+[1]*58)'",
    ):
        assert option in file.text
    again = read_back("torchrun-megatron", [file], config)
    assert again.parallelism == config.parallelism.model_copy(update={"dp_degree": 16})
    assert again.training is not None
    assert (again.training.mtp_layers, again.training.activation_recompute) == (1, ("mla_up_proj", "moe_act"))
    assert again.model.name == "DeepSeek-V3"
