"""How fast the simulator is. Asserted are amounts and ratios, which are exact; times are only reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import simpy

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


def test_bare_timeouts(timed: Any) -> None:
    """What SimPy itself does here, by which rates measured on different machines can be compared."""
    count = 200_000

    def ticks(env: simpy.Environment) -> Iterator[simpy.Event]:
        for _ in range(count):
            yield env.timeout(1.0)

    def run() -> float:
        env = simpy.Environment()
        env.process(ticks(env))
        env.run()
        return float(env.now)

    assert timed(run, "timeouts of SimPy alone", count) == count


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


@pytest.mark.parametrize("topology", ["switch", "fat_tree"])
def test_all_kinds_of_parallelism_on_9216_gpus_medium(measure: Any, topology: str) -> None:
    """A mixture of experts of 141 billion parameters, TP 8, PP 8, EP 8 in DP 144; building the cluster included."""
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 1152},
        "network": {"topology_type": topology},
        "model": {"name": "Mixtral-8x22B"},
        "parallelism": {
            "strategy": "TP_PP_EP_DDP",
            "tp_degree": 8,
            "pp_stages": 8,
            "ep_degree": 8,
            "sequence_parallel": True,
        },
        "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": 16, "num_iterations": 1},
        "simulation": {"lod": "medium"},
    }
    result = measure(config, "iterations", 1, rounds=1)
    assert result.metrics["num_gpus"] == 9216
    assert result.events < 3 * 9216


def test_a_month_with_failures_on_16384_gpus_medium(measure: Any) -> None:
    """Iterations are simulated until they repeat, then failures and restarts only."""
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 2048},
        "model": {"name": "Llama-3.1-405B"},
        "parallelism": {
            "strategy": "TP_PP_FSDP",
            "tp_degree": 8,
            "pp_stages": 16,
            "stage_layers": [8] * 14 + [7] * 2,
            "sequence_parallel": True,
        },
        "training": {
            "batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 16,
            "num_iterations": 50,
            "checkpoint": {"interval": 50, "storage_bandwidth": "2 TB/s"},
            "failures": {"duration": "30 d", "gpu_mtbf": "60000 h", "detection": "1 min", "restart": "10 min"},
        },
        "simulation": {"lod": "medium"},
    }
    result = measure(config, "days", 30, rounds=2)
    assert result.events < 100_000
    assert 150 < result.metrics["failures"] < 250


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_ddp_on_512_ranks_that_vary(measure: Any, lod: str) -> None:
    """Every iteration is another; at medium two processes stand for all ranks."""
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 64, "jitter": {"compute": 0.02}},
        "model": {"name": "GPT2-Medium"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 8, "num_iterations": 5, "communication_pattern": "ring"},
        "simulation": {"lod": lod},
    }
    result = measure(config, "iterations", 5, rounds=2)
    assert (result.events < 1000) == (lod == "medium")


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
