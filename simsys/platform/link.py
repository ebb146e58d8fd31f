"""The base of links under every model of contention: their data and counters."""

from __future__ import annotations

from abc import ABC, abstractmethod

from simsys.platform.link_spec import LinkSpec
from simsys.platform.timeline import Timeline
from simsys.platform.turns import Request, Sharing


class Link(ABC):
    """One direction of a link.

    Args:
        spec: Its ends, and bandwidth and latency at the beginning.
    """

    def __init__(self, spec: LinkSpec) -> None:
        self.spec = spec
        self.bytes_per_s = spec.bytes_per_s
        self.latency_s = spec.latency_s
        self.timeline: Timeline[LinkSpec] | None = None
        """Bandwidth and latency at all times, if they change."""
        self.nbytes = 0.0
        """Bytes of all transfers that have reached this link."""
        self.busy_s = 0.0
        """Service time handed out so far; with fair sharing, the time at full rate of the bytes sent so far."""
        self.queued_s = 0.0
        """Time that transfers have lost to others on this link, summed over the transfers."""

    sharing: Sharing | None
    """Whether processes may request it; shared by the platform."""

    @abstractmethod
    def request(self) -> Request:
        """Queue for the link as a whole; see `TurnServer.request`.

        Raises:
            UsageError: If the link has no turns, or its user runs ahead of the clock.
        """

    @abstractmethod
    def busy_before(self, now_s: float) -> float:
        """Seconds up to `now_s` that the link was busy, at its full rate."""

    def spec_at(self, time_s: float) -> LinkSpec:
        """Its specification at a time."""
        return self.spec if self.timeline is None else self.timeline.at(time_s)

    def renew(self, time_s: float) -> None:
        """Switch to the specification for a time."""
        spec = self.spec_at(time_s)
        self.bytes_per_s, self.latency_s = spec.bytes_per_s, spec.latency_s
