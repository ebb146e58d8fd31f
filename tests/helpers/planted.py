"""Scenarios with a planted bottleneck."""

from __future__ import annotations

from typing import Any

from simsys.config.experiment import SimulationConfig

NODE = {"profile": "dgx-h100"}
ONE_GPU = {**NODE, "gpus_per_node": 1}
GPT = {"model": {"name": "GPT2-XL"}}
LOAD = {
    "arrivals": {"kind": "poisson", "rate": "10 req/s"},
    "prompt_tokens": 512,
    "output_tokens": 128,
    "num_requests": 200,
}
SCENARIOS: dict[str, dict[str, Any]] = {
    "slow-link": {
        "hardware": {**NODE, "num_nodes": 2, "gpus_per_node": 2},
        "network": {"degradations": [{"links": {"kind": "nic", "nodes": [1]}, "bandwidth": 0.02}]},
        **GPT,
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 8, "num_iterations": 3},
    },
    "small-cache": {
        "hardware": ONE_GPU,
        "model": {"name": "Llama3-8B"},
        "serving": {"num_gpu_blocks_override": 250},
        "workload": LOAD,
    },
    "tiny-batch": {
        "hardware": ONE_GPU,
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": 16, "num_iterations": 3},
    },
    "tiny-serving-batch": {
        "hardware": ONE_GPU,
        "model": {"name": "Llama3-8B"},
        "serving": {"max_num_seqs": 2},
        "workload": LOAD,
    },
    "slow-gpu": {
        "hardware": {**NODE, "gpus_per_node": 4, "exceptions": [{"gpus": [3], "speed": 0.4}]},
        **GPT,
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 8, "num_iterations": 3},
    },
    "long-pipeline": {
        "hardware": NODE,
        **GPT,
        "parallelism": {"strategy": "PP", "pp_stages": 8},
        "training": {"batch_size_per_gpu": 4, "gradient_accumulation_steps": 4, "num_iterations": 3},
    },
}


def planted(name: str, **settings: Any) -> SimulationConfig:
    """One of the scenarios, with other settings by dotted path."""
    config = SimulationConfig(**{"name": name, **SCENARIOS[name]})
    return config.with_(settings) if settings else config
