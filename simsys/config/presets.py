"""Scenarios to start from: data-parallel training of GPT-2 on three sizes of cluster."""

from __future__ import annotations

from simsys.config.experiment import SimulationConfig


def create_small_scale_config() -> SimulationConfig:
    """GPT-2 small on one node of 8 A100."""
    return _preset("small_scale", "GPT2-Small", "dgx-a100", num_nodes=1, batch_size_per_gpu=16)


def create_medium_scale_config() -> SimulationConfig:
    """GPT-2 medium on 4 nodes of 8 A100."""
    return _preset("medium_scale", "GPT2-Medium", "dgx-a100", num_nodes=4, batch_size_per_gpu=16)


def create_large_scale_config() -> SimulationConfig:
    """GPT-2 large on 16 nodes of 8 H100."""
    return _preset("large_scale", "GPT2-Large", "dgx-h100", num_nodes=16, batch_size_per_gpu=16)


def _preset(name: str, model: str, profile: str, *, num_nodes: int, batch_size_per_gpu: int) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "name": name,
            "hardware": {"profile": profile, "num_nodes": num_nodes},
            "model": {"name": model},
            "parallelism": {"strategy": "DDP"},
            "training": {"batch_size_per_gpu": batch_size_per_gpu, "num_iterations": 100},
        }
    )
