"""Scenarios that can be changed in place: every assignment makes and validates a changed copy of the scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from simsys.compat.layers import model_settings
from simsys.config import cluster, experiment, presets
from simsys.config.base import FrozenModel
from simsys.config.hardware import load_gpu
from simsys.config.model import ModelConfig
from simsys.config.network import NetworkConfig
from simsys.config.training import TrainingConfig
from simsys.errors import UnknownNameError

__all__ = [
    "HardwareConfig",
    "ModelConfig",
    "NetworkConfig",
    "SimulationConfig",
    "TrainingConfig",
    "create_large_scale_config",
    "create_medium_scale_config",
    "create_small_scale_config",
]

BASE_GPU = "H100-SXM"
"""Profile that a GPU of an unknown name extends: it gives all that the earlier designs do not describe."""
OLDER = {
    "collect_detailed_stats": "simulation.collect_events",
    "training.num_nodes": "hardware.num_nodes",
    "hardware.gpu_model": "hardware.gpu",
    "hardware.num_gpus_per_node": "hardware.gpus_per_node",
}
"""Settings of the earlier designs that have another place now."""


class HardwareConfig(cluster.HardwareConfig):
    """The cluster, as `simsys.config.cluster.HardwareConfig`.

    A ``gpu_model`` that no profile has extends the profile of H100-SXM if ``compute_tflops`` and ``memory_gb`` are
    given; results list what it inherits.
    """

    @model_validator(mode="before")
    @classmethod
    def _own_gpu(cls, data: Any) -> Any:
        described = isinstance(data, dict) and {"compute_tflops", "memory_gb"} <= data.keys()
        if described and isinstance(name := data.get("gpu_model"), str):
            try:
                load_gpu(name)
            except UnknownNameError:
                return {**data, "gpu_model": {"extends": BASE_GPU, "name": name}}
        return data


class SimulationConfig:
    """One scenario, as `simsys.SimulationConfig`, with settings that can be assigned.

    Args:
        settings: Sections and settings of a scenario.

    Raises:
        ConfigError: If a setting does not exist or has a wrong value, here and at every assignment.

    Example:
        >>> from simsys.compat import create_small_scale_config
        >>> config = create_small_scale_config()
        >>> config.training.num_nodes = 2
        >>> config.core.hardware.num_nodes
        2
    """

    core: experiment.SimulationConfig
    """The scenario of simsys, which never changes; an assignment replaces it."""

    def __init__(self, **settings: Any) -> None:
        object.__setattr__(self, "core", experiment.SimulationConfig(**settings))

    @classmethod
    def of(cls, core: experiment.SimulationConfig) -> Self:
        """A scenario of simsys as one that can be changed in place."""
        config = cls.__new__(cls)
        object.__setattr__(config, "core", core)
        return config

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read an experiment file; see `simsys.SimulationConfig.from_yaml`."""
        return cls.of(experiment.SimulationConfig.from_yaml(path))

    def assign(self, path: str, value: Any) -> None:
        """Change the setting at a dotted path."""
        path = OLDER.get(path, path)
        own = model_settings(value) if path == "model.model_type" else None
        settings = {path: value} if own is None else {"model": own}
        object.__setattr__(self, "core", self.core.with_(settings))

    def value(self, path: str) -> Any:
        """The value of the setting at a dotted path; a section can be assigned to."""
        found: Any = self.core
        for name in OLDER.get(path, path).split("."):
            found = getattr(found, name)
        return _Section(self, path) if isinstance(found, FrozenModel) else found

    def __getattr__(self, name: str) -> Any:
        return self.value(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.assign(name, value)

    def __repr__(self) -> str:
        return repr(self.core)


class _Section:
    """A section of a scenario; an assignment changes the scenario."""

    def __init__(self, config: SimulationConfig, path: str) -> None:
        object.__setattr__(self, "_place", (config, path))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        config, path = object.__getattribute__(self, "_place")
        return config.value(f"{path}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        config, path = object.__getattribute__(self, "_place")
        config.assign(f"{path}.{name}", value)


def core_of(config: SimulationConfig | experiment.SimulationConfig) -> experiment.SimulationConfig:
    """The scenario of simsys."""
    return config.core if isinstance(config, SimulationConfig) else config


def create_small_scale_config() -> SimulationConfig:
    """See `simsys.create_small_scale_config`."""
    return SimulationConfig.of(presets.create_small_scale_config())


def create_medium_scale_config() -> SimulationConfig:
    """See `simsys.create_medium_scale_config`."""
    return SimulationConfig.of(presets.create_medium_scale_config())


def create_large_scale_config() -> SimulationConfig:
    """See `simsys.create_large_scale_config`."""
    return SimulationConfig.of(presets.create_large_scale_config())
