"""SGLang: the `python -m sglang.launch_server` line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.engine_defaults import release_key
from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import (
    Choice,
    Correspondence,
    Fixed,
    InexpressibleError,
    Option,
    Options,
    Settings,
    switch,
)
from simsys.deployments.deployment import Deployment
from simsys.deployments.expert_parts import SGLANG, OfAllRanks, RanksWithin, ReplicasOrRanks
from simsys.deployments.kv_parts import HiCache
from simsys.deployments.launch import Launch
from simsys.deployments.serving_parts import (
    OUTSIDE,
    POOLS,
    SECTIONS,
    SPECULATIVE,
    WEIGHTS,
    Checkpoint,
    OneNode,
    checked_speculative,
    draft_checkpoint,
    draft_of,
)
from simsys.deployments.shell import command_words, options_of, script
from simsys.deployments.target import EmittedFile, Target

COMMAND = ["python", "-m", "sglang.launch_server"]
PIECES, WITH_PIECES = "disable-piecewise-cuda-graph", (0, 5, 10)
ALGORITHM, DRAFT, STEPS, TOPK, DRAFTED = (
    *("speculative-algorithm", "speculative-draft-model-path", "speculative-num-steps"),
    *("speculative-eagle-topk", "speculative-num-draft-tokens"),
)


@dataclass(frozen=True)
class Speculative(Correspondence):
    """Speculative decoding: n-grams, a draft model, or the model's own extra layer, one branch (top-k 1) each.

    The tokens that a step verifies are the drafted ones and the one before.
    """

    paths: ClassVar[tuple[str, ...]] = SPECULATIVE
    options: ClassVar[tuple[str, ...]] = (ALGORITHM, DRAFT, STEPS, TOPK, DRAFTED)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The algorithm and its lengths."""
        if "serving.speculative.draft_tokens" not in settings:
            return {}
        checked_speculative(settings)
        tokens = settings["serving.speculative.draft_tokens"]
        branch = {STEPS: tokens, TOPK: 1, DRAFTED: tokens + 1}
        if "serving.speculative.draft_model" in settings:
            return {ALGORITHM: "STANDALONE", DRAFT: draft_checkpoint(settings), **branch}
        if "serving.speculative.draft_layers" in settings:
            return {ALGORITHM: "NEXTN", **branch}
        return {ALGORITHM: "NGRAM", DRAFTED: tokens + 1}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The way of drafting and its length."""
        if ALGORITHM not in options:
            return {}
        found = {"serving.speculative.draft_tokens": options[DRAFTED] - 1}
        if options[ALGORITHM] == "STANDALONE":
            found["serving.speculative.draft_model"] = draft_of(options[DRAFT])
        elif options[ALGORITHM] == "NEXTN":
            found["serving.speculative.draft_layers"] = 1
        return found


@dataclass(frozen=True)
class Adapters(Correspondence):
    """LoRA adapters that are all resident on the GPUs, on all modules that can have one."""

    paths: ClassVar[tuple[str, ...]] = ("serving.lora.adapters", "serving.lora.rank")
    options: ClassVar[tuple[str, ...]] = ("enable-lora", "max-loras-per-batch", "max-lora-rank", "lora-target-modules")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Their number and rank."""
        if "serving.lora.rank" not in settings:
            return {}
        values = (True, settings["serving.lora.adapters"], settings["serving.lora.rank"], "all")
        return dict(zip(self.options, values, strict=True))

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Their number and rank."""
        if "enable-lora" not in options:
            return {}
        return dict(zip(self.paths, (options["max-loras-per-batch"], options["max-lora-rank"]), strict=True))


@dataclass(frozen=True)
class CacheBlocks(Correspondence):
    """The size of the KV cache, which SGLang counts in tokens."""

    paths: ClassVar[tuple[str, ...]] = ("serving.num_gpu_blocks_override",)
    options: ClassVar[tuple[str, ...]] = ("max-total-tokens",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Blocks times the tokens of a block, one by default."""
        blocks = settings.get(self.paths[0])
        return {} if blocks is None else {self.options[0]: blocks * settings.get("serving.block_size", 1)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Tokens by the tokens of a block."""
        tokens = options.get(self.options[0])
        return {} if tokens is None else {self.paths[0]: tokens // options.get("page-size", 1)}


@dataclass(frozen=True)
class Graphs(Choice):
    """Which steps are replayed as CUDA graphs; before 0.5.10, steps with prompts never are."""

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The option of the value."""
        found, serving = super().write(settings, deployment), deployment.config.serving
        release = serving.engine_release if serving is not None else None
        if PIECES in found and release is not None and release_key(release) < WITH_PIECES:
            raise InexpressibleError(self.path, f"leave out decode_only, which is what SGLang {release} does")
        return found


TABLE: tuple[Correspondence, ...] = (
    OneNode(),
    Fixed("serving.engine", "sglang"),
    Checkpoint("model-path"),
    RanksWithin("tp-size", "enable-dp-attention", "ep-size", ranks="dp-size", whole=("moe-a2a-backend", "deepep")),
    Option("parallelism.pp_stages", "pp-size"),
    ReplicasOrRanks("dp-size", "round_robin", (("load-balance-method", "round_robin"),), flag="enable-dp-attention"),
    WEIGHTS,
    Choice("serving.kv_precision", {"bf16": {"kv-cache-dtype": "bfloat16"}, "fp8": {"kv-cache-dtype": "fp8_e4m3"}}),
    Option("serving.max_model_len", "context-length"),
    OfAllRanks("serving.max_num_seqs", "max-running-requests"),
    Option("serving.stream_interval", "stream-interval"),
    OfAllRanks("serving.max_num_batched_tokens", "chunked-prefill-size"),
    Choice("serving.scheduler", {"prefill_first": {}, "chunked_prefill": {"enable-mixed-chunk": True}}),
    Option("serving.scheduler_recv_interval", "scheduler-recv-interval"),
    Choice("serving.scheduler_reserve_full_isl", {True: {}}),
    switch("serving.async_scheduling", None, "disable-overlap-schedule"),
    switch("serving.prefix_caching", None, "disable-radix-cache"),
    Option("serving.block_size", "page-size"),
    Option("serving.gpu_memory_utilization", "mem-fraction-static"),
    CacheBlocks(),
    Graphs("serving.cuda_graphs", {"decode_only": {PIECES: True}, True: {}, False: {"disable-cuda-graph": True}}),
    Option("serving.max_cudagraph_capture_size", "cuda-graph-max-bs"),
    Speculative(),
    Adapters(),
    HiCache(),
    *SGLANG,
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [f"SGLang {deployment.release}, scenario {deployment.config.name}; written by simsys."]
    return [EmittedFile("serve.sh", script(COMMAND, options, about))]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    return options_of(command_words(files["serve.sh"])[len(COMMAND) :])


LAUNCH = Launch(
    starts=(("-m", "sglang.launch_server"), ("sglang", "serve")),
    other_names={
        "model": "model-path",
        **dict.fromkeys(("tp", "tensor-parallel-size"), "tp-size"),
        **dict.fromkeys(("dp", "data-parallel-size"), "dp-size"),
        **dict.fromkeys(("pp", "pipeline-parallel-size"), "pp-size"),
        **dict.fromkeys(("ep", "expert-parallel-size"), "ep-size"),
    },
    other_values={
        "dtype": {"half": "float16", "float": "float32"},
        "kv-cache-dtype": {"bf16": "bfloat16", "fp8_e5m2": "fp8_e4m3"},
        "schedule-policy": {"fcfs": "auto"},
    },
    without_effect=frozenset(
        {
            *("host", "port", "*api-key", "served-model-name", "trust-remote-code", "tokenizer-*", "*revision"),
            *("download-dir", "load-format", "*chat-template*", "tool-*", "*reasoning-parser*", "*log-*", "*metrics*"),
            *("*seed", "watchdog-timeout", "dist-*", "nnodes", "node-rank", "nccl-port", "*warmup*", "device"),
            *("base-gpu-id", "gpu-id-step", "enable-p2p-check", "model-loader-extra-config", "weight-loader-*"),
            *("fastapi-root-path", "sampling-defaults", "enable-cache-report", "show-time-cost", "crash-dump-folder"),
        }
    ),
    hides={"quantization": ("dtype",)},
    config=("config",),
)


TARGET = Target(
    name="sglang",
    tool="SGLang",
    kind="serving",
    releases=("0.5",),
    sources=(
        "https://docs.sglang.io/docs/advanced_features/server_arguments.md",
        "https://docs.sglang.io/docs/advanced_features/piecewise_cuda_graph.md",
        "https://docs.sglang.io/docs/advanced_features/speculative_decoding",
        "https://docs.sglang.io/advanced_features/hicache_design.html",
        "sgl-project/sglang: python/sglang/srt/server_args.py",
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
    reasons={
        "serving.kv_cache_memory_bytes": "cannot be expressed; give num_gpu_blocks_override or gpu_memory_utilization",
        **POOLS,
    },
    launch=LAUNCH,
)
