"""Collectives with the costs that were measured of a library on a machine, kind by kind.

A library may carry out some kinds worse than their algorithm allows: gloo's reduce-scatter moves as much as its
all-reduce. The costs are those of the steps of a ring, so that they hold for any number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simsys.collectives.base import CollectiveKind, Path


@dataclass(frozen=True)
class MeasuredCosts:
    """Measured costs of collectives within a node.

    Args:
        latency_s: Of a step, by kind.
        bytes_per_s: Of a step, by kind.
    """

    latency_s: Mapping[CollectiveKind, float] = field(hash=False)
    bytes_per_s: Mapping[CollectiveKind, float] = field(hash=False)

    def over(self, kind: CollectiveKind, path: Path) -> Path:
        """A path as a collective of this kind sees it; the links' own if the kind was not measured."""
        if kind not in self.bytes_per_s:
            return path
        latency_s = max(path.latency_s, self.latency_s[kind])
        return Path(latency_s, min(path.bytes_per_s, self.bytes_per_s[kind]), path.way)
