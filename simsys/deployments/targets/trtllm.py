"""TensorRT-LLM: the `trtllm-serve` line, and its extra options as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import (
    Choice,
    Correspondence,
    Fixed,
    InexpressibleError,
    Option,
    Options,
    Settings,
)
from simsys.deployments.deployment import Deployment
from simsys.deployments.expert_parts import TRTLLM, RanksWithin
from simsys.deployments.launch import Launch
from simsys.deployments.nesting import flat, nested
from simsys.deployments.serving_parts import (
    OUTSIDE,
    POOLS,
    QUANTISED,
    SECTIONS,
    SPECULATIVE,
    Checkpoint,
    OneNode,
    checked_speculative,
)
from simsys.deployments.shell import command_words, options_of, script, yaml_file
from simsys.deployments.target import EmittedFile, Target

COMMAND = "trtllm-serve"
EXTRA = "extra_llm_api_options"
ON_THE_LINE = ("tp_size", "pp_size", "ep_size", "max_batch_size", "max_num_tokens", "max_seq_len")
"""Options of the command itself; all others are in the file of extra options."""
TYPE, LENGTH, LAYERS, NGRAM = (
    f"speculative_config.{name}"
    for name in ("decoding_type", "max_draft_len", "num_nextn_predict_layers", "max_matching_ngram_size")
)


@dataclass(frozen=True)
class Speculative(Correspondence):
    """Speculative decoding by n-grams of the prompt, or by the model's own extra layer."""

    paths: ClassVar[tuple[str, ...]] = SPECULATIVE
    options: ClassVar[tuple[str, ...]] = (TYPE, LENGTH, LAYERS, NGRAM)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The way of drafting and its length."""
        if "serving.speculative.draft_tokens" not in settings:
            return {}
        checked_speculative(settings)
        tokens = settings["serving.speculative.draft_tokens"]
        if "serving.speculative.draft_model" in settings:
            raise InexpressibleError("serving.speculative.draft_model", "cannot be expressed; draft with draft_layers")
        if "serving.speculative.draft_layers" in settings:
            return {TYPE: "MTP", LAYERS: tokens}
        return {TYPE: "NGram", LENGTH: tokens, NGRAM: 4}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The way of drafting and its length."""
        if TYPE not in options:
            return {}
        if options[TYPE] == "MTP":
            return {"serving.speculative.draft_tokens": options[LAYERS], "serving.speculative.draft_layers": 1}
        return {"serving.speculative.draft_tokens": options[LENGTH]}


@dataclass(frozen=True)
class CacheBlocks(Correspondence):
    """The size of the KV cache, which TensorRT-LLM counts in tokens."""

    paths: ClassVar[tuple[str, ...]] = ("serving.num_gpu_blocks_override",)
    options: ClassVar[tuple[str, ...]] = ("kv_cache_config.max_tokens",)
    block_size: ClassVar[int] = 32

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Blocks times the tokens of a block."""
        blocks = settings.get(self.paths[0])
        size = settings.get("serving.block_size", self.block_size)
        return {} if blocks is None else {self.options[0]: blocks * size}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Tokens by the tokens of a block."""
        tokens = options.get(self.options[0])
        size = options.get("kv_cache_config.tokens_per_block", self.block_size)
        return {} if tokens is None else {self.paths[0]: tokens // size}


TABLE: tuple[Correspondence, ...] = (
    OneNode(),
    Fixed("serving.engine", "tensorrt-llm"),
    Fixed("parallelism.dp_degree", 1),
    Checkpoint("model"),
    RanksWithin("tp_size", "enable_attention_dp", "ep_size"),
    Option("parallelism.pp_stages", "pp_size"),
    Option("serving.max_num_seqs", "max_batch_size"),
    Option("serving.max_num_batched_tokens", "max_num_tokens"),
    Option("serving.max_model_len", "max_seq_len"),
    Choice(
        "serving.precision",
        {"fp32": {"dtype": "float32"}, "fp16": {"dtype": "float16"}, "bf16": {"dtype": "bfloat16"}},
        QUANTISED,
    ),
    Choice("serving.kv_precision", {"fp8": {"kv_cache_config.dtype": "fp8"}}),
    Choice(
        "serving.scheduler",
        {"orca": {}, "static_batching": {"scheduler_config.capacity_scheduler_policy": "STATIC_BATCH"}},
    ),
    Choice("serving.scheduler_reserve_full_isl", {True: {}}),
    Choice("serving.async_scheduling", {True: {}, False: {"disable_overlap_scheduler": True}}),
    Choice("serving.prefix_caching", {True: {}, False: {"kv_cache_config.enable_block_reuse": False}}),
    Option("serving.block_size", "kv_cache_config.tokens_per_block"),
    Option("serving.free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction"),
    CacheBlocks(),
    Choice("serving.cuda_graphs", {"decode_only": {}, True: {}, False: {"cuda_graph_config": None}}),
    Option("serving.max_cudagraph_capture_size", "cuda_graph_config.max_batch_size"),
    Option("serving.stream_interval", "stream_interval"),
    Option("serving.batch_wait_timeout_iters", "batch_wait_timeout_iters"),
    Option("serving.batch_wait_max_tokens_ratio", "batch_wait_max_tokens_ratio"),
    Speculative(),
    *TRTLLM,
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [f"TensorRT-LLM {deployment.release}, scenario {deployment.config.name}; written by simsys."]
    line = {name: options[name] for name in ON_THE_LINE if name in options}
    extra = {name: value for name, value in options.items() if name not in (*ON_THE_LINE, "model")}
    command = [COMMAND, options["model"]]
    if not extra:
        return [EmittedFile("serve.sh", script(command, {"backend": "pytorch", **line}, about))]
    name = "extra_options.yaml"
    text = script(command, {"backend": "pytorch", **line, EXTRA: name}, [*about, f"Start it beside {name}."])
    return [EmittedFile("serve.sh", text), EmittedFile(name, yaml_file(nested(extra), about))]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    words = command_words(files["serve.sh"])
    line = options_of(words[2:])
    extra = line.pop(EXTRA, None)
    del line["backend"]
    more = {} if extra is None else flat(yaml.safe_load(files[extra]))
    return {"model": words[1], **line, **more}


LAUNCH = Launch(
    starts=(("trtllm-serve", "serve"), ("trtllm-serve",)),
    positional="model",
    other_names={
        "tensor_parallel_size": "tp_size",
        "pipeline_parallel_size": "pp_size",
        "moe_expert_parallel_size": "ep_size",
        "kv_cache_free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction",
        "free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction",
    },
    without_effect=frozenset(
        {
            *("host", "port", "backend", "log-level", "trust-remote-code", "tokenizer", "*revision", "tool-parser"),
            *("reasoning-parser", "served-model-name", "print-iter-log", "enable-iter-perf-stats", "cluster-size"),
            *("gpus-per-node", "metadata-server-config-file", "server-role", "*chat-template*", "num-nodes"),
        }
    ),
    config=(EXTRA, "config"),
)


TARGET = Target(
    name="trtllm",
    tool="TensorRT-LLM",
    kind="serving",
    releases=("1.2", "1.1"),
    sources=(
        "https://nvidia.github.io/TensorRT-LLM/1.2.0rc6/commands/trtllm-serve/run-benchmark-with-trtllm-serve.html",
        "https://nvidia.github.io/TensorRT-LLM/1.3.0rc27/developer-guide/telemetry.html",
        "NVIDIA/TensorRT-LLM: tensorrt_llm/llmapi/llm_args.py",
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
    reasons={
        "serving.gpu_memory_utilization": "cannot be expressed; give free_gpu_memory_fraction",
        "serving.kv_cache_memory_bytes": "cannot be expressed; give num_gpu_blocks_override",
        "serving.lora": "cannot be expressed here, as TensorRT-LLM wants the path of each adapter",
        **POOLS,
    },
    launch=LAUNCH,
)
