"""A GPU: a FIFO compute server, a memory and its channels to the host, described by a `DeviceSpec`."""

from __future__ import annotations

from simsys.platform.device_spec import DeviceSpec
from simsys.platform.host import host_lanes
from simsys.platform.memory import DeviceMemory
from simsys.platform.server import CalendarServer
from simsys.platform.timeline import Timeline


class Device(CalendarServer):
    """One GPU.

    Args:
        index: Its number in the cluster, which is also its vertex in the topology.
        spec: Peaks, bandwidths and efficiency curves.
        timeline: The same at all times, if its speed changes.
    """

    __slots__ = ("host", "index", "launched_s", "lost_s", "memory", "slowness", "spec", "timeline")

    def __init__(self, index: int, spec: DeviceSpec, timeline: Timeline[DeviceSpec] | None = None) -> None:
        super().__init__()
        self.index = index
        self.spec = spec
        self.timeline = timeline
        self.launched_s = 0.0
        """When its host has launched all that the GPU was to do so far."""
        self.lost_s = 0.0
        """What its next computation takes longer, because collectives beside it take a share of the GPU."""
        self.slowness = 1.0
        """By how much computations take longer than the spec says, at present."""
        name = f"GPU {index} ({spec.name})"
        self.memory = DeviceMemory(spec.memory_bytes, name)
        self.host = host_lanes(spec, name)

    def spec_at(self, time_s: float) -> DeviceSpec:
        """What it can do for an operation that begins at a time."""
        return self.spec if self.timeline is None else self.timeline.at(time_s)
