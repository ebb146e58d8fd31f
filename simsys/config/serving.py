"""The experiment file's `serving`: an inference engine and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import CommunicationPattern, FrozenModel, invalid
from simsys.config.engine_defaults import Release
from simsys.config.experts import ExpertsConfig
from simsys.config.images import MultimodalConfig
from simsys.config.kv_tiers import KVOffloadConfig, KVTierConfig
from simsys.config.serving_options import (
    ApiServerConfig,
    AutoscalingConfig,
    DisaggregatedConfig,
    LoraConfig,
    SpeculativeConfig,
)
from simsys.units import Bytes, Fraction, NonNegativeSeconds

ServingPrecision = Literal["fp32", "fp16", "bf16", "fp8", "fp8_block", "int8", "fp4", "mxfp4", "int4"]
CachePrecision = Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4"]


DEFAULT_SWAP_BYTES = 4.0 * 2**30
"""Host memory per GPU for preempted requests: the default of vLLM's ``--swap-space``."""


CACHE_SIZES = (
    *("gpu_memory_utilization", "free_gpu_memory_fraction"),
    *("kv_cache_memory_bytes", "num_gpu_blocks_override"),
)
"""Alternative settings of the size of the KV cache."""


def step_problem(tokens: int | None, sequences: int | None, drafted: int) -> str:
    """Why a step has no room for all its sequences; empty if it has, or if a limit is unknown.

    Args:
        tokens: Tokens of a step.
        sequences: Sequences of a step.
        drafted: Tokens that are drafted for each.
    """
    if tokens is None or sequences is None or tokens >= sequences * (1 + drafted):
        return ""
    if drafted:
        return (
            f"max_num_batched_tokens ({tokens}) must be at least max_num_seqs x (draft_tokens + 1), "
            f"{sequences * (1 + drafted)}, since a step verifies every draft"
        )
    return (
        f"max_num_batched_tokens ({tokens}) must be at least max_num_seqs ({sequences}), since every decoding "
        "sequence needs one token of a step"
    )


class ServingConfig(FrozenModel):
    """An inference engine and its settings, named as in vLLM; the engine supplies settings that are left out.

    The defaults depend on the engine, its release, the GPU and the longest context; every result lists them.

    Weights in ``int8``, ``int4`` or ``mxfp4`` are computed in 16 bit, and so are weights in ``fp4`` on GPUs without
    FP4 arithmetic. ``fp8`` has one scale per tensor or channel, ``fp8_block`` one per block of 128 × 128 (DeepSeek-V3,
    Qwen3). In a mixture of experts, 4 bit concerns the routed experts only, unless the checkpoint says otherwise.
    If neither `kv_precision` nor the checkpoint states the precision of the KV cache, it follows the weights: ``fp8``
    for ``fp8``, ``fp8_block`` and ``fp4``, ``fp32`` for ``fp32``, and 16 bit for all others.

    Prompts share a prefix if the workload says so: by sessions, system prompts, or the hash ids of a trace.
    With a `scheduler_recv_interval` above 1, requests are also received after prefills and when the engine is idle.
    One setting gives the size of the KV cache: a share of the memory (`gpu_memory_utilization`) minus weights,
    activations and context; a share of the memory that these leave free; bytes per GPU; or blocks per replica.
    In SGLang, activations use the memory beside the share (`mem_fraction_static`).
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "tensor_parallel_size": "parallelism.tp_degree",
        "pipeline_parallel_size": "parallelism.pp_stages",
        "data_parallel_size": "parallelism.dp_degree",
        "dtype": "precision",
        "quantization": "precision",
        "kv_cache_dtype": "kv_precision",
        "enable_prefix_caching": "prefix_caching",
        "enable_chunked_prefill": "scheduler",
        "scheduling_policy": "scheduler",
        "enforce_eager": "cuda_graphs",
        "cudagraph_mode": "cuda_graphs",
        "disable_piecewise_cuda_graph": "cuda_graphs",
        "disable_overlap_schedule": "async_scheduling",
        "cuda_graph_max_bs": "max_cudagraph_capture_size",
        "max_batch_size": "max_num_seqs",
        "max_num_tokens": "max_num_batched_tokens",
        "max_running_requests": "max_num_seqs",
        "chunked_prefill_size": "max_num_batched_tokens",
        "mem_fraction_static": "gpu_memory_utilization",
        "kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction",
        "cache_max_entry_count": "free_gpu_memory_fraction",
        "enable_block_reuse": "prefix_caching",
        "disable_radix_cache": "prefix_caching",
        "page_size": "block_size",
        "tokens_per_block": "block_size",
        "capacity_scheduler_policy": "scheduler",
        "engine_version": "engine_release",
        "long_prefill_token_threshold": "options.long_prefill_token_threshold",
        "speculative_config": "speculative",
        "num_speculative_tokens": "speculative.draft_tokens",
        "mm_encoder_tp_mode": "multimodal.mm_encoder_tp_mode",
        "mm_enable_dp_encoder": "multimodal.mm_encoder_tp_mode",
        "max_num_encoder_input_tokens": "multimodal.max_num_encoder_input_tokens",
        "encoder_cache_size": "multimodal.encoder_cache_size",
    }

    engine: str = Field(
        default="vllm", description="Engine profile (simsys list engines), such as vllm, sglang or tensorrt-llm"
    )
    engine_release: Release | None = Field(
        default=None, description='Release of the engine, such as "0.11"; by default from the profile'
    )
    scheduler: str | None = Field(
        default=None, description="Scheduler module, such as chunked_prefill; by default from the engine"
    )
    max_num_seqs: PositiveInt | None = Field(
        default=None, description="Sequences in a step at most; by default as the engine sets it"
    )
    max_num_batched_tokens: PositiveInt | None = Field(
        default=None, description="Tokens in a step at most; by default as the engine sets it"
    )
    max_model_len: PositiveInt | None = Field(
        default=None, description="Longest request in tokens, prompt and output; by default the context of the model"
    )
    allow_long_max_model_len: bool = Field(
        default=False,
        description="Let max_model_len exceed the context of the model, as VLLM_ALLOW_LONG_MAX_MODEL_LEN does",
    )
    block_size: PositiveInt | None = Field(
        default=None, description="Tokens in a block of the KV cache; by default as the engine sets it"
    )
    gpu_memory_utilization: Fraction | None = Field(
        default=None, description="Share of the memory of a GPU that the engine may use"
    )
    free_gpu_memory_fraction: Fraction | None = Field(
        default=None, description="Share of the memory left free by weights, activations and context, for the KV cache"
    )
    kv_cache_memory_bytes: Bytes | None = Field(
        default=None, description='Size of the KV cache on each GPU, such as "20 GiB"'
    )
    num_gpu_blocks_override: PositiveInt | None = Field(
        default=None, description="Size of the KV cache of a replica in blocks"
    )
    scheduler_reserve_full_isl: bool | None = Field(
        default=None,
        description="Admit a prompt only if all its blocks are free, not only the blocks of its first chunk",
    )
    precision: ServingPrecision | None = Field(
        default=None,
        description="Precision of the weights of linear layers; by default from the checkpoint, else bf16",
    )
    kv_precision: CachePrecision | None = Field(
        default=None,
        description="Precision of the KV cache; by default from the checkpoint, else as the weights require",
    )
    cuda_graphs: bool | Literal["decode_only"] | None = Field(
        default=None,
        description="Replay steps as CUDA graphs (decode_only: steps without prompts); by default as the engine does",
    )
    max_cudagraph_capture_size: PositiveInt | None = Field(
        default=None, description="Tokens of the largest step that is replayed as a graph"
    )
    scheduler_recv_interval: PositiveInt = Field(
        default=1, description="Decode steps between two receptions of new requests, as in SGLang"
    )
    batch_wait_timeout_iters: NonNegativeInt = Field(
        default=0, description="Decode steps that prompts wait for a larger batch, as in TensorRT-LLM"
    )
    batch_wait_max_tokens_ratio: Fraction | None = Field(
        default=None, description="Share of max_num_batched_tokens at which prompts do not wait any longer"
    )
    attention_dp_timeout_iters: NonNegativeInt = Field(
        default=0,
        description="Decode steps that prompts wait until each data-parallel rank has one, as in TensorRT-LLM",
    )
    async_scheduling: bool | None = Field(
        default=None, description="Prepare a step during the one before; by default as the engine does"
    )
    stream_interval: PositiveInt = Field(
        default=1, description="Output tokens that a server sends at once, as in vLLM, SGLang and TensorRT-LLM"
    )
    api_overhead: NonNegativeSeconds | None = Field(
        default=None, description="Time of a request to the scheduler; by default as the engine profile says"
    )
    api_server: ApiServerConfig | None = Field(
        default=None, description="Processes that tokenise requests before the engine, with a queue of their own"
    )
    speculative: SpeculativeConfig | None = Field(
        default=None, description="Speculative decoding: the draft model, drafted tokens per step, and acceptance rate"
    )
    lora: LoraConfig | None = Field(default=None, description="LoRA adapters that are served together with the model")
    experts: ExpertsConfig | None = Field(
        default=None, description="Dispatch, popularity and balance of the experts of a mixture"
    )
    multimodal: MultimodalConfig | None = Field(
        default=None, description="The encoder of images: its limits in a step, its cache and its parallelism"
    )
    passes: str | None = Field(
        default=None,
        min_length=1,
        description="CSV table of measured forward passes, relative to the experiment file, in place of kernel costs",
    )
    communication_pattern: CommunicationPattern = Field(
        default="auto", description="Algorithm of collectives (docs/explanation/networks.md); auto chooses as NCCL"
    )
    prefill: str = Field(default="llm_prefill", description="Prefill module")
    decode: str = Field(default="llm_decode", description="Decode module")
    router: str = Field(
        default="round_robin", description="Router module that assigns requests to replicas, such as least_outstanding"
    )
    router_options: dict[str, Any] = Field(default_factory=dict, description="Options of the router")
    prefix_caching: bool | None = Field(
        default=None, description="Share KV blocks among prompts with equal beginnings; by default as the engine does"
    )
    preemption: Literal["recompute", "swap"] = Field(
        default="recompute",
        description="Treatment of the KV cache of a preempted request: recompute it, or swap it to the host",
    )
    swap_space: Bytes | None = Field(
        default=None, description="Host memory of each GPU for swapped caches; 4 GiB by default"
    )
    kv_tiers: list[KVTierConfig] | None = Field(
        default=None, min_length=1, description="Tiers of the KV cache below the GPUs, the fastest one first"
    )
    kv_offload: KVOffloadConfig | None = Field(
        default=None, description="How caches move between these tiers and the GPUs"
    )
    disaggregated: DisaggregatedConfig | None = Field(
        default=None, description="Separate replicas for prefill and decode"
    )
    autoscaling: AutoscalingConfig | None = Field(
        default=None, description="Replicas that start and stop with the load"
    )
    stepping: bool = Field(
        default=False, description="Simulate step by step instead of several steps at once; the results are equal"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the scheduler")

    @model_validator(mode="after")
    def _budget_holds_the_batch(self) -> Self:
        """Check the given limits of a step; defaults of the engine are checked when the engine is known."""
        problem = step_problem(self.max_num_batched_tokens, self.max_num_seqs, self.drafted)
        if problem:
            raise invalid(problem)
        return self

    @model_validator(mode="after")
    def _one_size_of_the_cache(self) -> Self:
        given = [name for name in CACHE_SIZES if getattr(self, name) is not None]
        if len(given) > 1:
            raise invalid(f"the size of the KV cache is given once, not by {' and '.join(given)}; keep one of them")
        return self

    @model_validator(mode="after")
    def _swaps_into_something(self) -> Self:
        if self.swap_space is not None and self.preemption != "swap":
            raise invalid("swap_space is for preemption: swap; write that too or remove swap_space")
        return self

    @model_validator(mode="after")
    def _disaggregated_does_not_scale(self) -> Self:
        if self.disaggregated is not None and self.autoscaling is not None:
            raise invalid(
                "disaggregated serving with autoscaling is not available, as it would have to weigh the two kinds of "
                "replicas against each other; remove one of them"
            )
        return self

    @property
    def drafted(self) -> int:
        """Tokens that are drafted for each sequence and step."""
        return self.speculative.draft_tokens if self.speculative is not None else 0

    @property
    def swap_bytes(self) -> float:
        """Host memory of each GPU for preempted requests."""
        return DEFAULT_SWAP_BYTES if self.swap_space is None else self.swap_space
