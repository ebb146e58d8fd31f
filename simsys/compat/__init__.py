"""The interfaces of three earlier designs, thin over simsys: programs for them run with another import line.

Every class hands its work to the package that does it: scenarios to `simsys.simulator`, hardware and time to the
platform, figures to the results. New programs use `simsys` itself, whose names `docs/reference/api.md` lists.

Start with `config.py` (scenarios that can be changed in place) and `training_simulator.py`; `simulator.py` runs them.
May import: analysis, build, config, errors, metrics, model, platform, plots, probes, simulator.

Example:
    >>> from simsys.compat import DistributedAISimulator, create_small_scale_config
    >>> config = create_small_scale_config()
    >>> config.training.num_iterations = 2
    >>> config.collect_detailed_stats = True
    >>> simulator = DistributedAISimulator(config)
    >>> simulator.run().metrics["iterations"]
    2
    >>> str(simulator.engine.event_history[0].event_type)
    'ITERATION_START'
"""

from __future__ import annotations

from simsys.compat.analyzer import SimulationAnalyzer
from simsys.compat.config import (
    HardwareConfig,
    ModelConfig,
    NetworkConfig,
    SimulationConfig,
    TrainingConfig,
    create_large_scale_config,
    create_medium_scale_config,
    create_small_scale_config,
)
from simsys.compat.engine import Event, EventType, SimulationEngine
from simsys.compat.layers import LayerConfig, LayerType, ModelArchitecture
from simsys.compat.resources import ResourceManager
from simsys.compat.simulator import DistributedAISimulator, ScalingStudyRunner
from simsys.compat.topology import TopologyManager
from simsys.compat.training_simulator import (
    CommunicationModel,
    ComputeModel,
    DeviceType,
    MemoryModel,
    Topology,
    TrainingResults,
    TrainingSimulator,
)
from simsys.compat.workload import DistributedTrainingWorkload
from simsys.plots.visualizer import Visualizer

__all__ = [
    "CommunicationModel",
    "ComputeModel",
    "DeviceType",
    "DistributedAISimulator",
    "DistributedTrainingWorkload",
    "Event",
    "EventType",
    "HardwareConfig",
    "LayerConfig",
    "LayerType",
    "MemoryModel",
    "ModelArchitecture",
    "ModelConfig",
    "NetworkConfig",
    "ResourceManager",
    "ScalingStudyRunner",
    "SimulationAnalyzer",
    "SimulationConfig",
    "SimulationEngine",
    "Topology",
    "TopologyManager",
    "TrainingConfig",
    "TrainingResults",
    "TrainingSimulator",
    "Visualizer",
    "create_large_scale_config",
    "create_medium_scale_config",
    "create_small_scale_config",
]
