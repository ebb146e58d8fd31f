"""Data-parallel ranks that share their experts, as vLLM, SGLang and TensorRT-LLM name them, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.deployments import emit, read_back
from simsys.errors import ConfigError

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
ROUTERS = {"vllm": "least_outstanding", "sglang": "round_robin", "trtllm": "round_robin"}


def scenario(target: str, parallelism: dict[str, Any], **serving: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h200"},
        model={"name": "DeepSeek-V3"},
        parallelism=parallelism,
        serving={"engine": ENGINES[target], "router": ROUTERS[target], **serving},
        workload={
            **{"arrivals": {"kind": "poisson", "rate": "1 req/s"}, "prompt_tokens": 100, "output_tokens": 10},
            "num_requests": 10,
        },
    )


CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "vllm",
        {"attention_dp": 8, "ep_degree": 8},
        {"experts": {"dispatch": "deepep_low_latency", "eplb": True, "redundant_experts": 32}},
        [
            *("--data-parallel-size 8", "--enable-expert-parallel", "--all2all-backend deepep_low_latency"),
            *("--enable-eplb", "num_redundant_experts"),
        ],
    ),
    ("vllm", {"tp_degree": 2, "attention_dp": 4}, {}, ["--tensor-parallel-size 2", "--data-parallel-size 4"]),
    (
        "sglang",
        {"tp_degree": 2, "attention_dp": 4, "ep_degree": 8},
        {"max_num_seqs": 16, "experts": {"dispatch": "deepep_high_throughput", "two_batch_overlap": True}},
        [
            *("--tp-size 8", "--dp-size 4", "--enable-dp-attention", "--ep-size 8", "--max-running-requests 64"),
            *("--moe-a2a-backend deepep", "--deepep-mode normal", "--enable-two-batch-overlap"),
        ],
    ),
    (
        "trtllm",
        {"attention_dp": 8, "ep_degree": 4},
        {"attention_dp_timeout_iters": 60},
        ["--tp_size 8", "--ep_size 4", "enable_attention_dp: true", "timeout_iters: 60", "enable_balance: true"],
    ),
]


@pytest.mark.parametrize(("target", "parallelism", "serving", "options"), CASES)
def test_ranks_are_written_and_read_back(
    target: str, parallelism: dict[str, Any], serving: dict[str, Any], options: list[str]
) -> None:
    config = scenario(target, parallelism, **serving)
    files = emit(config, target)
    text = " ".join("\n".join(file.text for file in files).replace("\\\n", " ").split())
    for option in options:
        assert option in text
    again = read_back(target, files, config)
    assert again.parallelism == config.parallelism.model_copy(update={"dp_degree": 1})
    assert again.serving is not None
    assert config.serving is not None
    for name in ("experts", "max_num_seqs", "router", "attention_dp_timeout_iters"):
        assert getattr(again.serving, name) == getattr(config.serving, name)


@pytest.mark.parametrize(
    ("target", "parallelism", "serving", "message"),
    [
        ("vllm", {"attention_dp": 8, "ep_degree": 4}, {}, "4 cannot be expressed; experts are divided by tensor"),
        ("vllm", {"attention_dp": 8}, {"router": "round_robin"}, "dealt to the ranks by least_outstanding"),
        ("sglang", {"attention_dp": 4, "dp_degree": 2}, {}, "start each replica on its own"),
        ("trtllm", {"tp_degree": 2, "attention_dp": 4}, {}, "with attention_dp each rank has one GPU"),
        (
            "trtllm",
            {"attention_dp": 8, "ep_degree": 8},
            {"experts": {"dispatch": "all_to_all"}},
            "cannot be expressed",
        ),
    ],
)
def test_what_an_engine_cannot_do_is_named(
    target: str, parallelism: dict[str, Any], serving: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        emit(scenario(target, parallelism, **serving), target)
