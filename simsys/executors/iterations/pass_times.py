"""How long passes take: computation, and communication alone and beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from simsys.ops import Collective
from simsys.sums import ordered_sum


@dataclass(slots=True)
class Exchange:
    """Collectives along one axis.

    Args:
        op: One of them, for all.
        alone_s: How long they take while nothing is computed.
        beside_s: How long they take beside computations.
    """

    op: Collective
    alone_s: float = 0.0
    beside_s: float = 0.0


@dataclass(slots=True)
class PassTimes:
    """What passes of one rank spend their time on.

    Args:
        compute_s: Computation, and waiting for its launches.
        exchanges: Their collectives, by axis.
        launched_s: How long the host has launched kernels, since their start.
    """

    compute_s: float = 0.0
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    launched_s: float = 0.0

    @property
    def seconds(self) -> float:
        """From their start to their end."""
        return self.compute_s + ordered_sum(exchange.alone_s for exchange in self.exchanges.values())

    def compute(self, work_s: float, launching_s: float = 0.0) -> float:
        """Count a computation, which ends when it is done and all of it is launched; return how long that takes."""
        self.launched_s += launching_s
        seconds = max(work_s, self.launched_s - self.seconds) if launching_s else work_s
        self.compute_s += seconds
        return seconds

    def exchange(self, op: Collective, alone_s: float, beside_s: float = 0.0, count: int = 1) -> None:
        """Count collectives of so many seconds; those that take none are none."""
        if alone_s or beside_s:
            own = self.exchanges.setdefault(op.group.axis, Exchange(op))
            own.alone_s += count * alone_s
            own.beside_s += count * beside_s

    def add(self, other: PassTimes, count: int) -> None:
        """Count `count` further passes like `other`."""
        self.compute_s += count * other.compute_s
        for each in other.exchanges.values():
            self.exchange(each.op, each.alone_s, each.beside_s, count)
