"""A GPU: a FIFO compute server, a memory and its channels to the host, described by a `DeviceSpec`."""

from __future__ import annotations

from simsys.platform.device_spec import DeviceSpec
from simsys.platform.host import host_lanes
from simsys.platform.memory import DeviceMemory
from simsys.platform.server import CalendarServer


class Device(CalendarServer):
    """One GPU.

    Args:
        index: Its number in the cluster, which is also its vertex in the topology.
        spec: Peaks, bandwidths and efficiency curves.
    """

    __slots__ = ("host", "index", "memory", "spec")

    def __init__(self, index: int, spec: DeviceSpec) -> None:
        super().__init__()
        self.index = index
        self.spec = spec
        name = f"GPU {index} ({spec.name})"
        self.memory = DeviceMemory(spec.memory_bytes, name)
        self.host = host_lanes(spec, name)
