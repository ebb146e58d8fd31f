"""Simulator of distributed AI workloads: training and LLM serving, built of SimPy processes.

The public names are imported when they are first used, so that ``import simsys`` costs next to nothing.
"""

from __future__ import annotations

from simsys.version import __version__

TYPE_CHECKING = False  # as `typing` has it, whose import would cost more than all of this file
if TYPE_CHECKING:
    from simsys.analysis.scaling import ScalingStudyRunner
    from simsys.analysis.scaling_result import ScalingResult
    from simsys.check import check_config
    from simsys.comparisons import compare
    from simsys.comparisons.comparison import Comparison
    from simsys.config.cluster import HardwareConfig
    from simsys.config.experiment import SimulationConfig
    from simsys.config.model import ModelConfig
    from simsys.config.network import NetworkConfig
    from simsys.config.parallelism import ParallelismConfig
    from simsys.config.presets import create_large_scale_config, create_medium_scale_config, create_small_scale_config
    from simsys.config.serving import ServingConfig
    from simsys.config.slo import SloConfig
    from simsys.config.training import TrainingConfig
    from simsys.config.workload import WorkloadConfig
    from simsys.deployments import emit, read_back
    from simsys.errors import ConfigError, InfeasibleError, OutOfMemoryError, OutputError, SimsysError, UsageError
    from simsys.hardware import VirtualHardwarePlatform
    from simsys.metrics.result import RunResult
    from simsys.probes import Probe
    from simsys.searches import SearchResult, search
    from simsys.simulator import DistributedAISimulator, load_config
    from simsys.sweeps import SweepResult, sweep
    from simsys.traces.event_file import read_events

_LAZY = {
    "Comparison": "simsys.comparisons.comparison",
    "ConfigError": "simsys.errors",
    "DistributedAISimulator": "simsys.simulator",
    "HardwareConfig": "simsys.config.cluster",
    "InfeasibleError": "simsys.errors",
    "ModelConfig": "simsys.config.model",
    "NetworkConfig": "simsys.config.network",
    "OutOfMemoryError": "simsys.errors",
    "OutputError": "simsys.errors",
    "ParallelismConfig": "simsys.config.parallelism",
    "Probe": "simsys.probes",
    "RunResult": "simsys.metrics.result",
    "ScalingResult": "simsys.analysis.scaling_result",
    "ScalingStudyRunner": "simsys.analysis.scaling",
    "SearchResult": "simsys.searches",
    "ServingConfig": "simsys.config.serving",
    "SimsysError": "simsys.errors",
    "SimulationConfig": "simsys.config.experiment",
    "SloConfig": "simsys.config.slo",
    "SweepResult": "simsys.sweeps",
    "TrainingConfig": "simsys.config.training",
    "UsageError": "simsys.errors",
    "VirtualHardwarePlatform": "simsys.hardware",
    "WorkloadConfig": "simsys.config.workload",
    "check_config": "simsys.check",
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
    "Comparison",
    "ConfigError",
    "DistributedAISimulator",
    "HardwareConfig",
    "InfeasibleError",
    "ModelConfig",
    "NetworkConfig",
    "OutOfMemoryError",
    "OutputError",
    "ParallelismConfig",
    "Probe",
    "RunResult",
    "ScalingResult",
    "ScalingStudyRunner",
    "SearchResult",
    "ServingConfig",
    "SimsysError",
    "SimulationConfig",
    "SloConfig",
    "SweepResult",
    "TrainingConfig",
    "UsageError",
    "VirtualHardwarePlatform",
    "WorkloadConfig",
    "__version__",
    "check_config",
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
