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
        ({}, "CUDA graphs for steps of up to 512 tokens; else the host launches kernels, "),
        ({}, "weights in bf16, computed in bf16; KV cache 2 bytes per element"),
        ({}, "from 92% of 79.11 GiB that programs see"),
        (SPLIT, "prompts on 2, tokens on 1 replicas, of 2 and 4 GPUs a stage; a cache is sent whole once there"),
        (SPLIT, "tokens per replica for prompts, from 92%"),
        (SPLIT, "tokens per replica for tokens, from 92%"),
        ({"prefix_caching": True}, "prefix caching: the workload does not say which prompts share"),
        ({"preemption": "swap"}, "preemption by swap: 4 GiB of host memory per GPU, over PCIe, and steps wait"),
        ({}, "decode attention over unequal sequences: 1 times that over equal ones"),
        ({"cuda_graphs": False}, "no CUDA graphs: the host launches kernels, "),
        ({"engine": "gpt-fast"}, "CUDA graphs for steps without prompts; else the host launches kernels, "),
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
            "pipeline: 4 stages, as many batches in flight; hidden states are sent",
        ),
        ({"parallelism": {"tp_degree": 2, "pp_stages": 4}}, "hidden states are sent a part from each rank, gathered"),
        ({"model": "Mixtral-8x7B", "parallelism": {"tp_degree": 8}}, "tokens are routed independently and evenly"),
        (
            {"model": "Mixtral-8x7B", "parallelism": EP},
            "experts: whole ones on 8 ranks, results added up by all-reduce; busiest rank 1.5 x the mean",
        ),
        ({"model": "Mixtral-8x7B", "parallelism": {**EP, "sequence_parallel": True}}, "tokens sent by all-to-all"),
        ({"speculative": DRAFT}, "3 tokens drafted in 0 us each, accepted at 0.5: 1.875 tokens per step on average"),
        ({"speculative": {**DRAFT, "draft_model": "GPT2-Small"}}, "3 tokens drafted by GPT2-Small, accepted at 0.5"),
        ({"speculative": {**DRAFT, "draft_layers": 1}}, "3 tokens drafted by 1 of "),
        ({"scheduler_recv_interval": 30}, "new requests are seen 30 decode steps after the last look, after prompts"),
        ({"cuda_graphs": "decode_only"}, "CUDA graphs for steps without prompts of up to 512"),
        (
            {"engine": "pytorch-eager", "parallelism": {"tp_degree": 4}},
            "prompts of more than 2048 tokens together: ",
        ),
        ({"engine": "sglang", "max_cudagraph_capture_size": 48}, "CUDA graphs for steps without prompts of up to 48"),
        ({"batch_wait_timeout_iters": 20}, "prompts wait 20 decode steps for others while sequences decode"),
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
    assert f"kernels, {profile.launch_per_layer / host.core_speed * 1e6:.4g} us a dense layer" in said
    prompts = f"prompts take {(profile.per_prompt_layer or 0.0) * 1e6:.4g} us a dense layer"
    assert (prompts in said) == (profile.per_prompt_layer is not None)


def test_nothing_is_said_of_what_is_not_there() -> None:
    plain = assumptions()
    assert not any(word in plain for word in ("pipeline", "experts", "speculative", "adapters"))
    assert "experts" not in assumptions(lora={"adapters": 8, "rank": 16})
