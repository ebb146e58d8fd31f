"""A GPU: a FIFO server that processes can request, a memory, and channels to the host."""

from __future__ import annotations

from collections.abc import Callable

from simsys.platform.device_memory import DeviceMemory
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.host import host_lanes
from simsys.platform.timeline import Timeline
from simsys.platform.turns import TurnServer

Seconds = Callable[[float], float]
"""The duration of a computation that starts at a time, both in seconds."""

Begun = Callable[[float, float], None]
"""Called with when a computation starts and ends, in seconds."""


class Device(TurnServer):
    """One GPU; processes of SimPy can request it.

    Args:
        index: Its number in the cluster, which is also its vertex in the topology.
        spec: Peaks, bandwidths and efficiency curves.
        timeline: The specification over time, if its speed changes.
    """

    __slots__ = ("host", "index", "launched_s", "lost_s", "memory", "slowness", "spec", "timeline")

    def __init__(self, index: int, spec: DeviceSpec, timeline: Timeline[DeviceSpec] | None = None) -> None:
        super().__init__()
        self.index = index
        self.spec = spec
        self.timeline = timeline
        self.launched_s = 0.0
        """The time when the host has launched all work so far."""
        self.lost_s = 0.0
        """Delay of its next computation by overlapped collectives."""
        self.slowness = 1.0
        """The present slow-down of computations, as a factor of the time by the spec."""
        name = f"GPU {index} ({spec.name})"
        self.memory = DeviceMemory(spec.memory_bytes, name)
        self.host = host_lanes(spec, name)

    def spec_at(self, time_s: float) -> DeviceSpec:
        """The spec for an operation that begins at a time."""
        return self.spec if self.timeline is None else self.timeline.at(time_s)

    def compute(self, now_s: float, seconds: Seconds, begun: Begun | None = None) -> float:
        """Reserve it for a computation, which no request may precede; return the end (s)."""
        start_s = self.free_at_s
        if start_s < now_s:
            start_s = now_s
        service_s = seconds(start_s)
        self.busy_s += service_s  # `reserve` written out: this runs for every computation
        self.free_at_s = end_s = start_s + service_s
        if begun is not None:
            begun(end_s - service_s, end_s)
        return end_s
