"""vLLM: the `vllm serve` line, and the same options as a YAML file for `--config`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Choice, Correspondence, Fixed, Option, Options, Settings, switch, whole
from simsys.deployments.deployment import Deployment
from simsys.deployments.expert_parts import VLLM, RanksBeside
from simsys.deployments.kv_parts import OffloadingConnector
from simsys.deployments.launch import Launch
from simsys.deployments.serving_parts import (
    OUTSIDE,
    POOLS,
    SECTIONS,
    SPECULATIVE,
    WEIGHTS,
    Checkpoint,
    OneNode,
    WholeExperts,
    checked_speculative,
    differing,
    draft_checkpoint,
    draft_of,
)
from simsys.deployments.shell import command_words, options_of, script, yaml_file
from simsys.deployments.target import EmittedFile, Target
from simsys.errors import UsageError

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values of ``--max-lora-rank``."""
COMPILATION = "compilation-config"


@dataclass(frozen=True)
class Speculative(Correspondence):
    """Speculative decoding, one JSON object: n-grams of the prompt, a draft model, or the model's own extra layer."""

    paths: ClassVar[tuple[str, ...]] = SPECULATIVE
    options: ClassVar[tuple[str, ...]] = ("speculative-config",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The JSON object."""
        if "serving.speculative.draft_tokens" not in settings:
            return {}
        checked_speculative(settings)
        found: dict[str, Any] = {"method": "ngram", "prompt_lookup_max": 4}
        if "serving.speculative.draft_model" in settings:
            found = {"method": "draft_model", "model": draft_checkpoint(settings)}
        elif "serving.speculative.draft_layers" in settings:
            found = {"method": "mtp"}
        found["num_speculative_tokens"] = settings["serving.speculative.draft_tokens"]
        return {"speculative-config": json.dumps(found)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The way of drafting and its length."""
        if "speculative-config" not in options:
            return {}
        given = json.loads(options["speculative-config"])
        found = {"serving.speculative.draft_tokens": given["num_speculative_tokens"]}
        if given["method"] == "draft_model":
            found["serving.speculative.draft_model"] = draft_of(given["model"])
        elif given["method"] == "mtp":
            found["serving.speculative.draft_layers"] = 1
        return found


@dataclass(frozen=True)
class Adapters(Correspondence):
    """LoRA adapters that are all resident on the GPUs."""

    paths: ClassVar[tuple[str, ...]] = ("serving.lora.adapters", "serving.lora.rank")
    options: ClassVar[tuple[str, ...]] = ("enable-lora", "max-loras", "max-lora-rank")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Their number and rank."""
        if "serving.lora.rank" not in settings:
            return {}
        rank = Option(self.paths[1], self.options[2], _lora_rank)
        return {
            "enable-lora": True,
            "max-loras": settings["serving.lora.adapters"],
            **rank.write(settings, deployment),
        }

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Their number and rank."""
        return (
            dict(zip(self.paths, (options["max-loras"], options["max-lora-rank"]), strict=True))
            if ("enable-lora" in options)
            else {}
        )


def _lora_rank(rank: int) -> int:
    if rank not in LORA_RANKS:
        raise ValueError(f"{rank} cannot be expressed; possible: {', '.join(map(str, LORA_RANKS))}")
    return rank


def _graph_mode(mode: str) -> dict[str, str]:
    return {COMPILATION: json.dumps({"cudagraph_mode": mode})}


WORKER: tuple[Correspondence, ...] = (
    Fixed("serving.engine", "vllm"),
    Checkpoint("model"),
    Option("parallelism.tp_degree", "tensor-parallel-size"),
    Option("parallelism.pp_stages", "pipeline-parallel-size"),
    WholeExperts("enable-expert-parallel", "tensor-parallel-size", is_flag=True),
    WEIGHTS,
    Choice("serving.kv_precision", {"bf16": {"kv-cache-dtype": "bfloat16"}, "fp8": {"kv-cache-dtype": "fp8"}}),
    Option("serving.max_model_len", "max-model-len"),
    Option("serving.max_num_seqs", "max-num-seqs"),
    Option("serving.max_num_batched_tokens", "max-num-batched-tokens"),
    Option("serving.options.long_prefill_token_threshold", "long-prefill-token-threshold"),
    Choice(
        "serving.scheduler",
        {"chunked_prefill": {"enable-chunked-prefill": True}, "priority": {"scheduling-policy": "priority"}},
    ),
    switch("serving.scheduler_reserve_full_isl", "scheduler-reserve-full-isl", "no-scheduler-reserve-full-isl"),
    switch("serving.async_scheduling", "async-scheduling", "no-async-scheduling"),
    Option("serving.stream_interval", "stream-interval"),
    switch("serving.prefix_caching", "enable-prefix-caching", "no-enable-prefix-caching"),
    Option("serving.block_size", "block-size"),
    Option("serving.gpu_memory_utilization", "gpu-memory-utilization"),
    Option("serving.kv_cache_memory_bytes", "kv-cache-memory-bytes", whole, "{} B".format),
    Option("serving.num_gpu_blocks_override", "num-gpu-blocks-override"),
    Choice(
        "serving.cuda_graphs",
        {
            True: _graph_mode("FULL_AND_PIECEWISE"),
            "decode_only": _graph_mode("FULL_DECODE_ONLY"),
            False: {"enforce-eager": True},
        },
    ),
    Option("serving.max_cudagraph_capture_size", "max-cudagraph-capture-size"),
    Option("serving.multimodal.mm_encoder_tp_mode", "mm-encoder-tp-mode"),
    Speculative(),
    Adapters(),
)
"""Correspondences of one replica."""
TABLE: tuple[Correspondence, ...] = (
    OneNode(),
    RanksBeside("data-parallel-size", "least_outstanding", dense_only=True),
    *(each for each in WORKER if not isinstance(each, WholeExperts)),
    OffloadingConnector(),
    *VLLM,
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [f"vLLM {deployment.release}, scenario {deployment.config.name}; written by simsys."]
    rest = {name: value for name, value in options.items() if name != "model"}
    line = script(["vllm", "serve", options["model"]], rest, [*about, "The same as: vllm serve --config vllm.yaml"])
    return [EmittedFile("serve.sh", line), EmittedFile("vllm.yaml", yaml_file(options, about))]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    words = command_words(files["serve.sh"])
    line = {"model": words[2], **options_of(words[3:])}
    options: dict[str, Any] = yaml.safe_load(files["vllm.yaml"])
    if problem := differing([("serve.sh", line), ("vllm.yaml", options)]):
        raise UsageError(problem)
    return options


LAUNCH = Launch(
    starts=(("vllm", "serve"), ("-m", "vllm.entrypoints.openai.api_server"), ("vllm/vllm-openai*",)),
    positional="model",
    other_names={
        "tp": "tensor-parallel-size",
        "pp": "pipeline-parallel-size",
        "dp": "data-parallel-size",
        "ep": "enable-expert-parallel",
        "q": "quantization",
        "cc": COMPILATION,
        "model-tag": "model",
    },
    other_values={
        "dtype": {"half": "float16", "float": "float32"},
        "kv-cache-dtype": {"fp8_e4m3": "fp8"},
        "scheduling-policy": {"fcfs": "auto"},
    },
    without_effect=frozenset(
        {
            *("host", "port", "uds", "api-key", "served-model-name", "trust-remote-code", "tokenizer*", "*revision"),
            *("download-dir", "load-format", "*chat-template*", "tool-*", "enable-auto-tool-choice"),
            *("*reasoning-parser*", "data-parallel-size-local"),
            *("*log-*", "*-log", "*logging*", "uvicorn-*", "ssl-*", "allow*", "root-path", "middleware", "seed"),
            *("hf-token", "hf-config-path", "config-format", "*generation-config", "response-role", "lora-modules"),
            *("distributed-executor-backend", "master-*", "nnodes", "node-rank", "headless"),
            *("data-parallel-address", "data-parallel-rpc-port", "data-parallel-backend", "data-parallel-start-rank"),
            *("max-parallel-loading-workers", "worker-*", "*metrics*", "otlp-*", "collect-detailed-traces"),
            *("disable-fastapi-docs", "ignore-patterns", "safetensors-load-strategy", "model-loader-extra-config"),
            *("use-tqdm-on-load", "enable-sleep-mode", "prefix-caching-hash-algo", "return-tokens-as-token-ids"),
            *("enable-prompt-tokens-details", "enable-server-load-tracking", "enable-force-include-usage", "device"),
            *("profiler-config", "kv-events-config", "swap-space"),
        }
    ),
    hides={"quantization": ("dtype",)},
    config=("config",),
    sizes=True,
    nested=True,
)


TARGET = Target(
    name="vllm",
    tool="vLLM",
    kind="serving",
    releases=("0.22",),
    sources=(
        "https://docs.vllm.ai/en/v0.12.0/cli/serve/",
        "https://docs.vllm.ai/en/v0.30.0/cli/serve/",
        "https://docs.vllm.ai/en/latest/configuration/serve_args/",
        "https://docs.vllm.ai/en/stable/features/kv_offloading_usage/",
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
    reasons={
        "serving.preemption": "swap cannot be expressed, as preempted requests are recomputed",
        **POOLS,
    },
    launch=LAUNCH,
)
