"""How fast the simulator is. Asserted are amounts and ratios, which are exact; times are only reported."""

from __future__ import annotations

from typing import Any

import pytest

LLAMA_70B_LAYERS = 80


def serving(model: str, hardware: dict[str, Any], lod: str, requests: int, rate: str, **more: Any) -> dict[str, Any]:
    """A serving scenario with prompts of 512 and outputs of 128 tokens."""
    return {
        "hardware": hardware,
        "model": {"name": model},
        "serving": {"engine": "vllm"},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": rate},
            "prompt_tokens": 512,
            "output_tokens": 128,
            "num_requests": requests,
        },
        "simulation": {"lod": lod},
        **more,
    }


def test_decode_of_80_layers_high(measure: Any) -> None:
    """One event per layer on one GPU."""
    result = measure(serving("Llama3-70B", {"gpu": "MI300X"}, "high", 200, "1 req/s"), "requests", 200)
    assert result.events > LLAMA_70B_LAYERS * result.metrics["steps"]


def test_tensor_parallel_decode_high(measure: Any) -> None:
    """Every step of every all-reduce over the links of four GPUs."""
    config = serving("Llama3-8B", {"profile": "dgx-h100", "gpus_per_node": 4}, "high", 100, "8 req/s")
    measure({**config, "parallelism": {"strategy": "TP", "tp_degree": 4}}, "requests", 100)


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_ddp_on_64_ranks(measure: Any, lod: str) -> None:
    """GPT-2 medium on eight DGX A100."""
    config = {
        "hardware": {"profile": "dgx-a100", "num_nodes": 8},
        "model": {"name": "GPT2-Medium"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 8, "num_iterations": 5, "communication_pattern": "ring"},
        "simulation": {"lod": lod},
    }
    measure(config, "iterations", 5)


def test_pipeline_of_64_stages_and_512_micro_batches_medium(measure: Any) -> None:
    """A trillion parameters on 3,072 GPUs: two iterations are simulated, the others are like them."""
    config = {
        "hardware": {"profile": "dgx-h200", "num_nodes": 384},
        "model": {"name": "Megatron-1T"},
        "parallelism": {"strategy": "TP_PP_DDP", "tp_degree": 8, "pp_stages": 64, "dp_degree": 6},
        "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": 512, "num_iterations": 10},
        "simulation": {"lod": "medium"},
    }
    result = measure(config, "iterations", 10, rounds=2)
    assert result.events < 64 * 2 * 512


@pytest.mark.parametrize(("strategy", "model"), [("FSDP", "Llama3-8B"), ("ZERO1", "GPT2-XL")])
def test_sharded_training_of_64_ranks_medium(measure: Any, strategy: str, model: str) -> None:
    """Eight DGX H100."""
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 8},
        "model": {"name": model},
        "parallelism": {"strategy": strategy},
        "training": {"batch_size_per_gpu": 1, "num_iterations": 10},
        "simulation": {"lod": "medium"},
    }
    measure(config, "iterations", 10)
