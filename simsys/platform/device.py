"""A GPU: a FIFO compute server and a memory, described by a `DeviceSpec`."""

from __future__ import annotations

from simsys.platform.device_spec import DeviceSpec
from simsys.platform.memory import DeviceMemory
from simsys.platform.server import CalendarServer


class Device(CalendarServer):
    """One GPU.

    Args:
        index: Its number in the cluster, which is also its vertex in the topology.
        spec: Peaks, bandwidths and efficiency curves.
    """

    __slots__ = ("index", "memory", "spec")

    def __init__(self, index: int, spec: DeviceSpec) -> None:
        super().__init__()
        self.index = index
        self.spec = spec
        self.memory = DeviceMemory(spec.memory_bytes, f"GPU {index} ({spec.name})")
