"""An iteration of data-parallel training from three models: communication, computation and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.config.validation import validate
from simsys.errors import UsageError
from simsys.metrics.history import HistoryEvent
from simsys.metrics.result import RunResult
from simsys.simulator import DistributedAISimulator

LAYERS = 16
"""Equal layers of a model that is given by its size; gradients of one are sent while others compute."""
FLOP_PER_PARAMETER = 2.0
"""FLOP of the forward pass per weight and sample: one multiplication and one addition."""
MS = 1e3


class Topology(StrEnum):
    """The network between the nodes; each value is a ``network.topology_type``."""

    FULL_MESH = "full_mesh"
    RING = "ring"
    SWITCH = "switch"
    TORUS_2D = "torus_2d"
    TREE = "tree"


class DeviceType(StrEnum):
    """The kind of device that trains; only GPUs have profiles."""

    GPU = "GPU"


@dataclass(frozen=True)
class CommunicationModel:
    """Nodes and the network between them.

    Args:
        num_nodes: Nodes.
        topology: The network between them.
        communication_pattern: Algorithm of collectives, such as ``ring``.
    """

    num_nodes: int
    topology: Topology = Topology.SWITCH
    communication_pattern: str = "auto"


@dataclass(frozen=True)
class ComputeModel:
    """Devices, the same number in each node.

    Args:
        num_devices: Devices in all.
        device_type: Their kind.
        gpu: Their profile (`simsys list gpus`).
    """

    num_devices: int
    device_type: DeviceType = DeviceType.GPU
    gpu: str = "A100-SXM-80GB"


@dataclass(frozen=True)
class MemoryModel:
    """Memory of the devices, and what saves it.

    Args:
        num_devices: Devices in all.
        memory_gb: Memory of each in GB of 10^9 bytes; by default as in its profile.
        strategy: ``DDP``, or a strategy that divides model states, such as ``FSDP``.
        activation_recompute: Activations that the backward pass computes again: ``none`` or ``full``.
    """

    num_devices: int
    memory_gb: float | None = None
    strategy: str = "DDP"
    activation_recompute: str = "none"


class TrainingResults:
    """The results of an iteration.

    Args:
        result: The run.
        events: Its event history.
    """

    def __init__(self, result: RunResult, events: Sequence[HistoryEvent]) -> None:
        self.result = result
        self.events = events

    @property
    def total_time_ms(self) -> float:
        """Time of the iteration."""
        return self._ms("mean_iteration_s")

    @property
    def compute_time_ms(self) -> float:
        """Time of computation on a device."""
        return self._ms("compute_s")

    @property
    def communication_time_ms(self) -> float:
        """Time of communication of a device, also that which overlaps with computation."""
        return self._ms("communication_s")

    @property
    def exposed_communication_time_ms(self) -> float:
        """Time of communication during which a device does not compute."""
        return self._ms("exposed_communication_s")

    @property
    def comm_adjacency(self) -> list[list[float]]:
        """Bytes from each device (row) to each device (column)."""
        cells = [[0.0] * self.result.world_size for _ in range(self.result.world_size)]
        columns = (self.result.traffic.get(name, ()) for name in ("src", "dst", "nbytes"))
        for src, dst, nbytes in zip(*columns, strict=True):
            cells[src][dst] += nbytes
        return cells

    def _ms(self, name: str) -> float:
        return MS * float(self.result.metrics[name])

    def __repr__(self) -> str:
        return (
            f"<TrainingResults total_time_ms={self.total_time_ms:.4g}, compute_time_ms={self.compute_time_ms:.4g}, "
            f"communication_time_ms={self.communication_time_ms:.4g}, events={len(self.events)}>"
        )


class TrainingSimulator:
    """Simulates iterations of data-parallel training with `simsys.DistributedAISimulator`.

    Args:
        communication: Nodes and network.
        compute: Devices.
        memory: Their memory.

    Raises:
        UsageError: If the numbers of devices and nodes do not fit together.

    Example:
        >>> from simsys import compat as dts
        >>> simulator = dts.TrainingSimulator(
        ...     dts.CommunicationModel(num_nodes=2), dts.ComputeModel(num_devices=2), dts.MemoryModel(num_devices=2)
        ... )
        >>> simulator.set_batch_size(64)
        >>> simulator.set_model_size(parameters=250e6, activations=1e6)
        >>> results = simulator.simulate_training_iteration()
        >>> results.total_time_ms >= results.compute_time_ms > 0
        True
    """

    def __init__(self, communication: CommunicationModel, compute: ComputeModel, memory: MemoryModel) -> None:
        if memory.num_devices != compute.num_devices:
            raise UsageError(f"{compute.num_devices} devices compute, but {memory.num_devices} have memory")
        nodes, devices = communication.num_nodes, compute.num_devices
        if nodes < 1 or devices < 1 or devices % nodes:
            raise UsageError(f"{devices} devices cannot be divided evenly among {nodes} nodes")
        self.communication, self.compute, self.memory = communication, compute, memory
        self._batch_size = devices
        self._layers: list[dict[str, Any]] = []

    def set_batch_size(self, samples: int) -> None:
        """Set the samples of an iteration on all devices together."""
        self._batch_size = samples

    def set_model_size(self, parameters: float, activations: float, num_layers: int = LAYERS) -> None:
        """Describe the model by its size.

        Args:
            parameters: Weights; each takes two FLOP per sample in the forward and four in the backward pass.
            activations: Numbers per sample that are kept for the backward pass.
            num_layers: Equal layers that they are divided among.
        """
        layer = {
            "parameters": parameters / num_layers,
            "forward_flop": FLOP_PER_PARAMETER * parameters / num_layers,
            "activation_bytes": 4.0 * activations / num_layers,
        }
        self._layers = [{"name": f"layer{index}", **layer} for index in range(num_layers)]

    @property
    def config(self) -> SimulationConfig:
        """The scenario that is simulated.

        Raises:
            UsageError: If no model is set yet.
            ConfigError: If a setting does not fit.
        """
        if not self._layers:
            raise UsageError("the model has no size yet; call set_model_size first")
        per_device, rest = divmod(self._batch_size, self.compute.num_devices)
        if rest or per_device < 1:
            text = f"a batch of {self._batch_size} samples cannot be divided evenly among"
            raise UsageError(f"{text} {self.compute.num_devices} devices")
        gpu: Any = self.compute.gpu
        if self.memory.memory_gb is not None:
            gpu = {"extends": gpu, "memory": f"{self.memory.memory_gb} GB"}
        nodes = self.communication.num_nodes
        data = {
            "name": "training_iteration",
            "hardware": {"gpu": gpu, "num_nodes": nodes, "gpus_per_node": self.compute.num_devices // nodes},
            "network": {"topology_type": self.communication.topology.value},
            "model": {"layers": self._layers},
            "parallelism": {"strategy": self.memory.strategy} if self.compute.num_devices > 1 else {},
            "training": {
                "batch_size_per_gpu": per_device,
                "num_iterations": 1,
                "communication_pattern": self.communication.communication_pattern,
                "activation_recompute": self.memory.activation_recompute,
            },
            "simulation": {"collect_events": True},
        }
        return validate(data, SimulationConfig)

    def simulate_training_iteration(self) -> TrainingResults:
        """Simulate one iteration.

        Raises:
            ConfigError: If the settings do not fit together.
            InfeasibleError: If the model does not fit the memory.
        """
        simulator = DistributedAISimulator(self.config)
        return TrainingResults(simulator.run(), simulator.engine.event_history)
