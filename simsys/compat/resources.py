"""One GPU with its memory and its way to another one: work is carried out on the platform, one piece after another."""

from __future__ import annotations

from typing import Any

from simpy.events import Event

from simsys.build.cluster import build_cluster
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.config.validation import validate
from simsys.errors import OutOfMemoryError, UsageError

GB = 1e9


class ResourceManager:
    """Memory, computation and communication of a GPU, by the models of `simsys.platform`.

    Args:
        hardware: The cluster; by default two nodes of one H100.
        network: The network between its nodes.

    Raises:
        ConfigError: If the two do not fit together.

    Example:
        >>> from simsys.compat import ResourceManager
        >>> resources = ResourceManager()
        >>> resources.allocate_memory("weights", 60.0), resources.allocate_memory("more", 60.0)
        (True, False)
        >>> 1.0 < resources.compute_execution_time(1e15) < 2.0
        True
    """

    def __init__(self, hardware: HardwareConfig | None = None, network: NetworkConfig | None = None) -> None:
        given = hardware or validate({"gpu": "H100-SXM", "num_nodes": 2}, HardwareConfig)
        cluster = build_cluster(given, network or NetworkConfig())
        self.platform = cluster.platform()
        self._peer = cluster.gpus_per_node if cluster.num_nodes > 1 else 1
        self._network_s = 0.0

    @property
    def _memory(self) -> Any:
        return self.platform.devices[0].memory

    def allocate_memory(self, allocation_id: str, size_gb: float) -> bool:
        """Allocate memory; whether it fits.

        Args:
            allocation_id: Its name; sizes of the same name add up.
            size_gb: GB of 10^9 bytes.
        """
        try:
            self._memory.allocate(allocation_id, size_gb * GB)
        except OutOfMemoryError:
            return False
        return True

    def free_memory(self, allocation_id: str) -> bool:
        """Free all memory of a name; whether there was any."""
        if allocation_id not in self._memory.held:
            return False
        self._memory.free(allocation_id)
        return True

    def compute_execution_time(self, flops: float) -> float:
        """Carry out a matrix product of this number of FLOP; its time in seconds, with the efficiency of the GPU."""
        dtype = "bf16" if "bf16" in self.platform.devices[0].spec.peak_flop_per_s else "fp16"
        return self._seconds(self.platform.submit_computation_task(0, flop=flops, dtype=dtype))

    def communication_time(self, data_size_gb: float) -> float:
        """Send GB (10^9 bytes) to the next node, or in a single node to the next GPU; the time in seconds.

        Raises:
            UsageError: If there is one GPU only.
        """
        if self._peer >= len(self.platform.devices):
            raise UsageError("one GPU alone sends nothing; give hardware with num_nodes or num_gpus_per_node above 1")
        seconds = self._seconds(self.platform.submit_network_transfer_task(0, self._peer, data_size_gb * GB))
        self._network_s += seconds
        return seconds

    def get_utilization(self) -> dict[str, float]:
        """Busy shares of the time so far of the GPU and its way out, and the used share of memory; 0 to 1."""
        now = self.platform.env.now
        return {
            "compute": self.platform.utilization()[0],
            "memory": self._memory.in_use_bytes / self._memory.capacity_bytes,
            "network": self._network_s / now if now else 0.0,
        }

    def get_statistics(self) -> dict[str, Any]:
        """Simulated time, memory in GB, busy shares, and the links that were used, as columns."""
        memory = self._memory
        return {
            "simulated_s": self.platform.env.now,
            "memory_capacity_gb": memory.capacity_bytes / GB,
            "memory_in_use_gb": memory.in_use_bytes / GB,
            "peak_memory_gb": memory.peak_bytes / GB,
            "utilization": self.get_utilization(),
            "links": self.platform.link_statistics(),
        }

    def _seconds(self, done: Event) -> float:
        started_s: float = self.platform.env.now
        self.platform.env.run(until=done)
        return float(self.platform.env.now - started_s)
