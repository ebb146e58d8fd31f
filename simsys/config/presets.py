"""Scenarios to start from: data-parallel training of GPT-2 on three sizes of cluster."""

from __future__ import annotations

from simsys.config.experiment import SimulationConfig
from simsys.data import shipped_folder

PRESETS = {"small": "small_scale", "medium": "medium_scale", "large": "large_scale"}
"""Scenarios of the shipped file ``presets.yaml``, by the name of their size."""


def create_small_scale_config() -> SimulationConfig:
    """GPT-2 small on one node of 8 A100."""
    return _preset("small")


def create_medium_scale_config() -> SimulationConfig:
    """GPT-2 medium on 4 nodes of 8 A100."""
    return _preset("medium")


def create_large_scale_config() -> SimulationConfig:
    """GPT-2 large on 16 nodes of 8 H100."""
    return _preset("large")


def _preset(size: str) -> SimulationConfig:
    return SimulationConfig.from_yaml(shipped_folder("experiments") / "presets.yaml", PRESETS[size])
