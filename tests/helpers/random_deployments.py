"""Scenarios by chance whose settings tools may or may not be able to express."""

from __future__ import annotations

import random
from typing import Any

SERVING: dict[str, tuple[Any, ...]] = {
    "engine_release": ("0.22", "0.11", "0.5.3", "1.2.1"),
    "scheduler": ("chunked_prefill", "priority", "prefill_first", "orca", "static_batching", "vllm_v0"),
    "max_num_seqs": (1, 64, 256),
    "max_num_batched_tokens": (2048, 8192),
    "max_model_len": (4096, 8192),
    "block_size": (16, 32),
    "scheduler_reserve_full_isl": (True, False),
    "precision": ("fp32", "fp16", "bf16", "fp8", "int4"),
    "kv_precision": ("fp8", "bf16", "fp16"),
    "cuda_graphs": (True, False, "decode_only"),
    "max_cudagraph_capture_size": (128, 256),
    "scheduler_recv_interval": (1, 8),
    "batch_wait_timeout_iters": (0, 5),
    "batch_wait_max_tokens_ratio": (0.25,),
    "async_scheduling": (True, False),
    "api_overhead": ("3 ms",),
    "communication_pattern": ("auto", "ring"),
    "router": ("round_robin", "least_outstanding", "least_kv"),
    "prefix_caching": (True, False),
    "preemption": ("swap",),
    "stepping": (True,),
    "options": ({"long_prefill_token_threshold": 512}, {"chunks": 3}),
    "lora": ({"adapters": 4, "rank": 16}, {"adapters": 2, "rank": 24}),
    "speculative": (
        {"draft_tokens": 3, "acceptance_rate": 0.7},
        {"draft_tokens": 1, "acceptance_rate": 0.25, "draft_layers": 1},
        {"draft_tokens": 2, "acceptance_rate": 0.5, "draft_layers": 2},
        {"draft_tokens": 5, "acceptance_rate": 0.9, "draft_model": "Llama3-8B"},
        {"draft_tokens": 4, "acceptance_rate": 0.6, "draft_cost": "1 ms"},
    ),
}
CACHE_SIZES: tuple[tuple[str, Any], ...] = (
    ("gpu_memory_utilization", 0.85),
    ("free_gpu_memory_fraction", 0.7),
    ("kv_cache_memory_bytes", "20 GiB"),
    ("kv_cache_memory_bytes", "1234567.5 B"),
    ("num_gpu_blocks_override", 4096),
)


def serving_deployment(r: random.Random, engine: str, *, pools: bool = False) -> dict[str, Any]:
    """A scenario of one engine as an experiment file would hold it, with settings that fit the schema.

    Args:
        r: Chance.
        engine: The engine.
        pools: Whether half of the scenarios have replicas for prefill and for decode.
    """
    serving: dict[str, Any] = {"engine": engine}
    share = r.choice([0.1, 0.3, 0.6])
    for name, values in SERVING.items():
        if r.random() < share:
            serving[name] = r.choice(values)
    if r.random() < share:
        name, value = r.choice(CACHE_SIZES)
        serving[name] = value
    if serving.get("cuda_graphs") is False:
        serving.pop("max_cudagraph_capture_size", None)
    tensor, stages, replicas = r.choice([1, 2, 4, 8]), r.choice([1, 1, 2]), r.choice([1, 1, 1, 2])
    parallelism: dict[str, Any] = {"tp_degree": tensor, "pp_stages": stages, "dp_degree": replicas}
    model = r.choice(["Llama3-8B", "Llama-2-70B", "Mixtral-8x7B", "Qwen3-30B-A3B"])
    if tensor > 1 and r.random() < 0.3:
        parallelism |= {"ep_degree": tensor, "expert_skew": 1.5}
    if r.random() < 0.1:
        parallelism["sequence_parallel"] = True
    if pools and r.random() < 0.5:
        del parallelism["dp_degree"]
        serving["router"] = r.choice(["round_robin", "prefix_affinity", "random"])
        serving["disaggregated"] = {
            "prefill_replicas": r.choice([1, 2]),
            "decode_replicas": r.choice([1, 3]),
            **({"prefill_tp_degree": r.choice([1, 4, 16])} if r.random() < 0.3 else {}),
            **({"decode_tp_degree": r.choice([1, 2])} if r.random() < 0.3 else {}),
            **({"decode_router": r.choice(["least_kv", "round_robin", "random"])} if r.random() < 0.6 else {}),
        }
    return {
        "name": "random",
        "hardware": {"profile": "dgx-h100", "num_nodes": 4},
        "model": {"name": model},
        "parallelism": parallelism,
        "serving": serving,
        "workload": {
            "arrivals": {"kind": "poisson", "rate": "2 req/s"},
            "prompt_tokens": 128,
            "output_tokens": 32,
            "num_requests": 24,
        },
    }
