"""Scenarios of commands: emitted ones are read back equal, and so are those of documentation and scripts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from simsys import SimulationConfig
from simsys.deployments import emit, target_of
from simsys.deployments.deployment import deployment_of
from simsys.deployments.emission import canonical_settings
from simsys.deployments.imported import ACCEPTANCE, TRAFFIC, Imported, import_commands, launched_tools
from simsys.deployments.targets.torchrun_megatron import TARGET as MEGATRON
from simsys.errors import ConfigError, UnknownNameError, UsageError
from tests.helpers.places import ROOT
from tests.helpers.random_deployments import serving_deployment
from tests.helpers.random_training import training_deployment

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}


def imported(*texts: str, on: str = "dgx-h100", folder: Path = Path(), **environment: str) -> Imported:
    return import_commands(texts, on, folder=folder, environment=environment)


def canonical(config: SimulationConfig, target: str) -> dict[str, Any]:
    tool = target_of(target)
    settings = canonical_settings(tool, deployment_of(config, tool.releases[0], None))
    outside = (*tool.outside, "serving.kv_tiers", "training.checkpoint")
    return {path: value for path, value in settings.items() if not path.startswith(outside)}


@pytest.mark.parametrize("target", ENGINES)
def test_emitted_commands_of_servers_are_read_as_the_scenarios_that_they_are_of(target: str, tmp_path: Path) -> None:
    equal = 0
    for seed in range(60):
        data = serving_deployment(random.Random(f"import {target} {seed}"), ENGINES[target])
        try:
            config = SimulationConfig.model_validate(data)
            files = emit(config, target)
        except (ValidationError, ConfigError):
            continue
        for file in files:
            (tmp_path / file.name).write_text(file.text)
        found = imported((tmp_path / "serve.sh").read_text(), folder=tmp_path)
        again = SimulationConfig.model_validate({**found.data, "hardware": data["hardware"]})
        assert found.unread == []
        assert canonical(again, target) == canonical(config, target)
        equal += 1
    assert equal > 5


def test_emitted_commands_of_megatron_are_read_as_the_scenarios_that_they_are_of() -> None:
    equal = 0
    for seed in range(60):
        data = training_deployment(seed, "megatron")
        data["training"].pop("checkpoint", None)  # no option states the bandwidth of storage
        try:
            config = SimulationConfig.model_validate(data)
            (file,) = emit(config, MEGATRON.name)
        except (ValidationError, ConfigError):
            continue
        found = imported(file.text)
        again = SimulationConfig.model_validate({**found.data, "hardware": data["hardware"]})
        assert found.unread == []
        assert canonical(again, MEGATRON.name) == canonical(config, MEGATRON.name)
        equal += 1
    assert equal > 5


LINES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a quantised checkpoint": (
        "vllm serve RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8 -tp 4 --dtype bfloat16 --max-model-len 32k --port 8000",
        {"parallelism": {"dp_degree": 1, "tp_degree": 4}, "serving": {"engine": "vllm", "max_model_len": 32_000}},
        [],
    ),
    "ranks that share experts": (
        "vllm serve Qwen/Qwen3-235B-A22B-FP8 -dp 8 --enable-expert-parallel --all2all-backend deepep_low_latency",
        {
            "parallelism": {"dp_degree": 1, "attention_dp": 8, "ep_degree": 8},
            "serving": {
                "engine": "vllm",
                "router": "least_outstanding",
                "experts": {"dispatch": "deepep_low_latency"},
            },
        },
        [],
    ),
    "an older entry point": (
        "python -m vllm.entrypoints.openai.api_server --model mistralai/Mixtral-8x7B-Instruct-v0.1 "
        "--tensor-parallel-size=2 --enable_chunked_prefill True --max_num_seqs 256 --disable-log-stats",
        {
            "parallelism": {"dp_degree": 1, "tp_degree": 2},
            "serving": {"engine": "vllm", "scheduler": "chunked_prefill", "max_num_seqs": 256},
        },
        [],
    ),
    "a container": (
        "docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model openai/gpt-oss-120b --cpu-offload-gb 4",
        {"parallelism": {"dp_degree": 1}, "serving": {"engine": "vllm"}},
        ["--cpu-offload-gb 4"],
    ),
    "data-parallel attention": (
        "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention "
        "--moe-a2a-backend deepep --deepep-mode normal --chunked-prefill-size 32768 --attention-backend fa3",
        {
            "parallelism": {"tp_degree": 1, "attention_dp": 8, "ep_degree": 8, "dp_degree": 1},
            "serving": {
                "engine": "sglang",
                "max_num_batched_tokens": 4096,
                "experts": {"dispatch": "deepep_high_throughput"},
            },
        },
        ["--attention-backend fa3"],
    ),
    "a value that does not fit": (
        "python -m sglang.launch_server --model Qwen/Qwen3-32B-AWQ --quantization awq --tp 2 "
        "--chunked-prefill-size -1",
        {"parallelism": {"dp_degree": 1, "tp_degree": 2}, "serving": {"engine": "sglang"}},
        ["--chunked-prefill-size -1"],
    ),
    "TensorRT-LLM": (
        "trtllm-serve nvidia/Llama-3.1-405B-Instruct-FP4 --tp_size 8 --kv_cache_free_gpu_memory_fraction 0.9",
        {
            "parallelism": {"tp_degree": 8, "dp_degree": 1},
            "serving": {"engine": "tensorrt-llm", "free_gpu_memory_fraction": 0.9},
        },
        [],
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_commands_as_people_write_them(case: str) -> None:
    line, sections, unread = LINES[case]
    found = imported(line)
    assert {name: found.data[name] for name in ("parallelism", "serving")} == sections
    assert found.unread == unread
    assert found.data["workload"] == TRAFFIC
    assert found.assumed == ["workload: no command sends traffic; write your own"]
    config = SimulationConfig.model_validate(found.data)
    assert config.hardware.gpus_per_node == config.parallelism.shards


def test_traffic_is_read_with_the_defaults_of_the_load_generator() -> None:
    bench = "vllm bench serve --model X --random-input-len 2000 --max-concurrency 256 --goodput ttft:2000 tpot:50"
    found = imported("vllm serve meta-llama/Llama-3.1-8B", bench)
    assert found.data["workload"] == {
        "prompt_tokens": {"kind": "fixed", "tokens": 2000},
        "output_tokens": {"kind": "fixed", "tokens": 128},
        "num_requests": 1000,
        "arrivals": {"kind": "closed_loop", "concurrency": 256},
    }
    assert found.data["slo"] == {"ttft": "2000 ms", "tpot": "50 ms"}
    assert (found.assumed, found.tools) == ([], ["vLLM", "vLLM"])
    assert imported(f"vllm serve meta-llama/Llama-3.1-8B &\n{bench}").data == found.data


def test_drafts_have_an_acceptance_that_is_said_to_be_assumed() -> None:
    draft = '{"method": "ngram", "num_speculative_tokens": 4}'
    found = imported(f"vllm serve meta-llama/Llama-3.1-8B --speculative-config '{draft}'")
    assert found.data["serving"]["speculative"] == {"draft_tokens": 4, "acceptance_rate": ACCEPTANCE}
    assert "acceptance_rate: 0.7" in found.assumed[0]


MEGATRON_SCRIPT = """
GPUS_PER_NODE=8
MODEL=(
  --num-layers 96
  --hidden-size 12288
  --num-attention-heads 96
  --seq-length 2048
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes 16 --master_port 6000 pretrain_gpt.py "${MODEL[@]}" \\
  --micro-batch-size 1 --global-batch-size 1536 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 \\
  --num-layers-per-virtual-pipeline-stage 3 --fp16 --train-iters 100 --lr 6.0e-5 --data-path $DATA --save-interval 9
"""


def test_a_script_of_megatron_with_arrays() -> None:
    found = imported(MEGATRON_SCRIPT, on="dgx-a100")
    assert found.data == {
        "name": "imported",
        "hardware": {"profile": "dgx-a100", "gpus_per_node": 8, "num_nodes": 16},
        "model": {"name": "GPT-3-175B", "sequence_length": 2048},
        "parallelism": {
            "dp_degree": 1,
            "tp_degree": 8,
            "pp_stages": 16,
            "schedule": "interleaved",
            "virtual_stages": 2,
            "strategy": "TP_PP",
        },
        "training": {
            "engine": "megatron",
            "batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1536,
            "num_iterations": 100,
            "precision": "fp16",
        },
    }
    assert found.unread == ["--save-interval 9"]
    assert found.assumed == ["model.name: GPT-3-175B, which has these sizes"]


def test_a_decoder_that_no_entry_has_is_given_by_its_sizes() -> None:
    sizes = "--num-layers 10 --hidden-size 1024 --num-attention-heads 8 --ffn-hidden-size 4000 --vocab-size 1000"
    command = f"torchrun --nproc-per-node 2 pretrain_gpt.py {sizes} --seq-length 512"
    found = imported(f"{command} --micro-batch-size 4 --bf16")
    assert found.data["model"] == {
        "model_type": "gpt",
        "num_layers": 10,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "intermediate_size": 4000,
        "vocab_size": 1000,
        "sequence_length": 512,
    }
    assert found.data["training"]["gradient_accumulation_steps"] == 1
    assert found.data["parallelism"]["dp_degree"] == 2
    with pytest.raises(UsageError, match="other mixtures of experts cannot be read"):
        imported(f"{command} --num-experts 7")


def test_a_folder_with_a_configuration_is_the_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    source = ROOT / "experiments" / "models" / "qwen2.5-vl-7b.json"
    (tmp_path / "mine" / "config.json").write_text(source.read_text())
    assert imported("vllm serve mine", folder=tmp_path).data["model"] == {"huggingface": "mine"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["echo hello"], "no command starts a server that simsys knows; known: .*vllm serve"),
        (["vllm serve meta-llama/Llama-3.1-8B", "trtllm-serve X"], "one server is needed, not 2: vLLM, TensorRT-LLM"),
        (["vllm bench serve --model X"], "no command starts a server"),
        (["vllm serve --max-num-seqs 4"], "vLLM: the command names no model"),
        (["vllm serve $MODEL"], r"the model is \$MODEL, which the script does not set"),
        (["torchrun pretrain_gpt.py --num-layers 2"], "does not say how many GPUs"),
        (["torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2"], "does not give --hidden-size, --num-att"),
        (["vllm serve meta-llama/Llama-3.1-8B", "vllm bench serve --dataset-name sharegpt"], "possible: random"),
    ],
)
def test_what_is_wrong_is_said(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        imported(*texts)


def test_unknown_names_have_suggestions() -> None:
    with pytest.raises(UnknownNameError, match="unknown node or GPU 'hgx-h100', did you mean"):
        imported("vllm serve meta-llama/Llama-3.1-8B", on="hgx-h100")
    with pytest.raises(UnknownNameError, match="unknown model"):
        imported("vllm serve acme/other")


def test_a_variable_of_the_environment_names_the_model() -> None:
    assert imported("vllm serve $MODEL", MODEL="meta-llama/Llama-3.1-8B").data["model"] == {"name": "Llama-3.1-8B"}


def test_options_without_effect_and_those_with_a_setting_are_different_ones() -> None:
    for tool in launched_tools():
        assert tool.launch is not None
        named = {name for each in tool.table for name in each.options}
        both = {name for name in named if tool.launch.changes_nothing(name)} - {"log-throughput"}
        assert both <= {"tokenizer"}, (tool.name, both)
        targets = set(tool.launch.other_names.values())
        assert targets <= named, (tool.name, targets - named)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
spec:
  replicas: {replicas}
  template:
    spec:
      containers:
        - image: vllm/vllm-openai:v0.11.0
          args: [--model, meta-llama/Llama-3.1-8B, --tensor-parallel-size, "2", --data-parallel-size, "{ranks}"]
"""


@pytest.mark.parametrize(("replicas", "ranks", "servers"), [(1, 1, 1), (4, 1, 4), (3, 2, 6)])
def test_replicas_of_a_manifest_serve_beside_each_other(replicas: int, ranks: int, servers: int) -> None:
    found = imported(DEPLOYMENT.format(replicas=replicas, ranks=ranks))
    config = SimulationConfig.model_validate(found.data)
    assert config.parallelism.tp_degree == 2
    assert (config.parallelism.dp_degree or 1) == servers
    assert config.hardware.gpus_per_node is not None
    assert config.hardware.num_nodes * config.hardware.gpus_per_node >= 2 * servers
    assert not found.unread


@pytest.mark.parametrize("replicas", ["0", "'${N}'"])
def test_replicas_that_are_no_number_of_servers_are_listed(replicas: str) -> None:
    found = imported(DEPLOYMENT.format(replicas=replicas, ranks=1))
    assert found.unread == [f"replicas: {replicas.strip(chr(39))}"]
