"""What a serving run says that its figures rest on."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_engine, load_node

WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 16, "num_requests": 4}


def assumptions(model: str = "Llama3-8B", parallelism: dict[str, Any] | None = None, **serving: Any) -> str:
    config = SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100"},
            "model": {"name": model},
            "parallelism": parallelism or {},
            "serving": serving,
            "workload": WORKLOAD,
        }
    )
    return "\n".join(build_job(config).assumptions())


EP = {"tp_degree": 8, "ep_degree": 8, "expert_skew": 1.5}
SPLIT = {
    "parallelism": {"tp_degree": 2},
    "disaggregated": {"prefill_replicas": 2, "decode_replicas": 1, "decode_tp_degree": 4},
}
DRAFT = {"draft_tokens": 3, "acceptance_rate": 0.5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "engine profile vllm: "),
        ({}, "CUDA graphs for steps of up to 512 tokens; other steps are launched eagerly, "),
        ({}, "weights in bf16, computed in bf16; KV cache 2 bytes per element"),
        ({}, "from 92% of 79.11 GiB of usable device memory"),
        (SPLIT, "prefill on 2, decode on 1 replicas, with 2 and 4 GPUs per stage; a KV cache is sent whole once the"),
        (SPLIT, "tokens per replica for prompts, from 92%"),
        (SPLIT, "tokens per replica for tokens, from 92%"),
        ({"prefix_caching": True}, "prefix caching: the workload defines no shared prefixes"),
        ({"preemption": "swap"}, "preemption by swap: 4 GiB of host memory per GPU over PCIe; steps wait for copies"),
        ({}, "decode attention over sequences of unequal length: 1 x the time of equal lengths"),
        ({"cuda_graphs": False}, "no CUDA graphs: kernels are launched eagerly, "),
        ({"engine": "gpt-fast"}, "CUDA graphs for steps without prompts; other steps are launched eagerly, "),
        ({"api_overhead": "7 ms"}, "API: 7 ms before a request reaches the scheduler, part of TTFT"),
        (
            {"precision": "int4"},
            "weights in int4, with a 16-bit scale for each 128, computed in bf16; embedding",
        ),
        ({"precision": "fp8_block"}, "weights in fp8_block, computed in fp8; embedding and head in bf16; KV cache 1"),
        (
            {"precision": "fp8", "kv_precision": "bf16"},
            "computed in fp8; embedding and head in bf16; KV cache 2",
        ),
        (
            {"parallelism": {"pp_stages": 4}},
            "pipeline: 4 stages, 4 batches in flight; hidden states are sent",
        ),
        (
            {"parallelism": {"tp_degree": 2, "pp_stages": 4}},
            "hidden states are sent in parts, one per rank, and gathered",
        ),
        ({"model": "Mixtral-8x7B", "parallelism": {"tp_degree": 8}}, "tokens are routed independently and evenly"),
        (
            {"model": "Mixtral-8x7B", "parallelism": EP},
            "experts: divided among 8 ranks, results summed by all-reduce; busiest rank 1.5 x the mean",
        ),
        ({"model": "Mixtral-8x7B", "parallelism": {**EP, "sequence_parallel": True}}, "tokens sent by all-to-all"),
        (
            {"model": "Mixtral-8x7B", "parallelism": EP, "experts": {"padded_rows": 128}},
            "products of experts: computed in multiples of 128 rows for each expert",
        ),
        (
            {"model": "Mixtral-8x7B", "parallelism": EP, "experts": {"identical_sequences": 16}},
            "identical sequences: 16 use the same experts at the same time",
        ),
        (
            {"speculative": DRAFT},
            "3 tokens drafted at 0 us each, acceptance rate 0.5: 1.875 tokens per step on average",
        ),
        (
            {"speculative": {**DRAFT, "draft_model": "GPT2-Small"}},
            "3 tokens drafted by GPT2-Small, acceptance rate 0.5",
        ),
        ({"speculative": {**DRAFT, "draft_layers": 1}}, "3 tokens drafted by 1 of "),
        ({"scheduler_recv_interval": 30}, "new requests are received every 30 decode steps, after prefills"),
        ({"cuda_graphs": "decode_only"}, "CUDA graphs for steps without prompts of up to 512"),
        (
            {"engine": "pytorch-eager", "parallelism": {"tp_degree": 4}},
            "steps with more than 2048 prompt tokens: ",
        ),
        ({"engine": "sglang", "max_cudagraph_capture_size": 48}, "CUDA graphs for steps without prompts of up to 48"),
        (
            {"batch_wait_timeout_iters": 20},
            "prompts wait up to 20 decode steps for a larger batch while sequences decode",
        ),
        ({"lora": {"adapters": 8, "rank": 16}}, "adapters: 8 of rank 16, equally popular, all on the GPU"),
    ],
)
def test_it_is_said(given: dict[str, Any], said: str) -> None:
    assert said in assumptions(**given)


@pytest.mark.parametrize("engine", ["vllm", "gpt-fast", "pytorch-eager"])
def test_times_of_the_host_are_those_of_its_processors(engine: str) -> None:
    profile, host = load_engine(engine), load_node("dgx-h100").host
    assert profile.launch_per_layer is not None
    assert host is not None
    assert host.core_speed is not None
    said = assumptions(engine=engine)
    assert f"eagerly, {profile.launch_per_layer / host.core_speed * 1e6:.4g} us of launch time per dense layer" in said
    prompts = f"passes with prompts: {(profile.per_prompt_layer or 0.0) * 1e6:.4g} us more per dense layer"
    assert (prompts in said) == (profile.per_prompt_layer is not None)


def test_nothing_is_said_of_what_is_not_there() -> None:
    plain = assumptions()
    assert not any(word in plain for word in ("pipeline", "experts", "speculative", "adapters"))
    assert "experts" not in assumptions(lora={"adapters": 8, "rank": 16})
