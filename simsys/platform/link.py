"""What every link has, whatever shares it: its data, and counters of what it carried."""

from __future__ import annotations

from abc import ABC, abstractmethod

from simsys.platform.topology import LinkSpec


class Link(ABC):
    """One direction of a link.

    Args:
        spec: Its ends, bandwidth and latency.
    """

    def __init__(self, spec: LinkSpec) -> None:
        self.spec = spec
        self.bytes_per_s = spec.bytes_per_s
        self.latency_s = spec.latency_s
        self.nbytes = 0.0
        """Bytes of the transfers that have come to this link."""
        self.queued_s = 0.0
        """Time that transfers have lost here to others, added up over the transfers."""

    @abstractmethod
    def busy_before(self, now_s: float) -> float:
        """Seconds up to `now_s` that the link, at its full rate, needed for what it carried."""
