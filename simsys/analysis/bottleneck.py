"""One bottleneck of a run, the thresholds of its rules, and the numbers of its text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from simsys.units import Dimension, pretty

Kind = Literal["compute", "memory", "network", "queueing"] | str
"""A resource, or the name of an analysis of the user's own."""

COMPUTE_BUSY = 0.8
"""Busy share of the GPUs above which a run is compute-bound; the first design document's threshold."""
MEMORY_WARNING, MEMORY_RISK = 0.7, 0.9
"""Shares of device memory:

above the first it is nearly full, above the second fragmentation may make a run fail; the first design document's
thresholds.
"""
COMMUNICATION_HIGH, COMMUNICATION_BOUND = 0.3, 0.5
"""Share of an iteration that is exposed communication: above the first it is a bottleneck, above the second it
outweighs computation; the first design document's thresholds."""
MOST_TIMES = 1e6
"""Larger gains are reported as more than this number of times."""


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck of a run.

    Args:
        kind: The resource.
        severity: The share that was compared with the threshold, 0 to 1.
        evidence: The figures, for people.
        recommendations: Remedies with their gain, where known.
    """

    kind: Kind
    severity: float
    evidence: str
    recommendations: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The bottleneck as data for JSON."""
        return asdict(self)


def time(seconds: float) -> str:
    """A time with its unit."""
    return pretty(seconds, Dimension.SECONDS)


def percent(share: float) -> str:
    """A share in whole per cent."""
    return f"{share:.0%}".replace("%", " %")


def factor(before_s: float, after_s: float) -> str:
    """How many times faster something is; of a time that vanishes beside another one, a bound."""
    if after_s < before_s / MOST_TIMES:
        return f"more than {MOST_TIMES:.0f}x"
    ratio = before_s / after_s
    return f"{ratio:.2g}x" if ratio < 10 else f"{ratio:.0f}x"
