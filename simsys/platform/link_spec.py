"""One direction of a cable: its ends, bandwidth and latency."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simsys.errors import UsageError


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a cable.

    Args:
        src: Source vertex.
        dst: Destination vertex.
        bytes_per_s: Bandwidth in this direction.
        latency_s: Time of the first byte.
        kind: Its kind, such as ``ring``, ``nvswitch`` or ``nic``.
    """

    src: int
    dst: int
    bytes_per_s: float
    latency_s: float
    kind: str


def check_link(bytes_per_s: float, latency_s: float) -> None:
    """Raise UsageError unless a link can have this bandwidth and latency."""
    if not 0.0 < bytes_per_s < math.inf:
        raise UsageError(f"a link's bandwidth must be positive and finite, not {bytes_per_s!r} bytes/s")
    if not 0.0 <= latency_s < math.inf:
        raise UsageError(f"a link's latency must be finite and not negative, not {latency_s!r} s")
