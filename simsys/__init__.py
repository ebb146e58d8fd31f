"""Simulator of distributed AI workloads: training and LLM serving, built of SimPy processes.

The public names are imported when they are first used, so that ``import simsys`` costs next to nothing.
"""

from __future__ import annotations

from simsys.version import __version__

TYPE_CHECKING = False  # as `typing` has it, whose import would cost more than all of this file
if TYPE_CHECKING:
    from simsys.analysis.scaling import ScalingStudyRunner
    from simsys.comparisons import compare
    from simsys.config.experiment import SimulationConfig
    from simsys.config.presets import (
        create_large_scale_config,
        create_medium_scale_config,
        create_small_scale_config,
    )
    from simsys.deployments import emit, read_back
    from simsys.errors import ConfigError, InfeasibleError, OutOfMemoryError, SimsysError, UsageError
    from simsys.hardware import VirtualHardwarePlatform
    from simsys.searches import search
    from simsys.simulator import DistributedAISimulator, load_config
    from simsys.sweeps import sweep
    from simsys.traces.event_file import read_events

_LAZY = {
    "ConfigError": "simsys.errors",
    "DistributedAISimulator": "simsys.simulator",
    "InfeasibleError": "simsys.errors",
    "OutOfMemoryError": "simsys.errors",
    "ScalingStudyRunner": "simsys.analysis.scaling",
    "SimsysError": "simsys.errors",
    "SimulationConfig": "simsys.config.experiment",
    "UsageError": "simsys.errors",
    "VirtualHardwarePlatform": "simsys.hardware",
    "compare": "simsys.comparisons",
    "create_large_scale_config": "simsys.config.presets",
    "create_medium_scale_config": "simsys.config.presets",
    "create_small_scale_config": "simsys.config.presets",
    "emit": "simsys.deployments",
    "load_config": "simsys.simulator",
    "read_back": "simsys.deployments",
    "read_events": "simsys.traces.event_file",
    "search": "simsys.searches",
    "sweep": "simsys.sweeps",
}

__all__ = [
    "ConfigError",
    "DistributedAISimulator",
    "InfeasibleError",
    "OutOfMemoryError",
    "ScalingStudyRunner",
    "SimsysError",
    "SimulationConfig",
    "UsageError",
    "VirtualHardwarePlatform",
    "__version__",
    "compare",
    "create_large_scale_config",
    "create_medium_scale_config",
    "create_small_scale_config",
    "emit",
    "load_config",
    "read_back",
    "read_events",
    "search",
    "sweep",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
