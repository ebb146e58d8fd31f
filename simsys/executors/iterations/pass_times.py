"""Durations of passes: computation, exposed and overlapped communication."""

from __future__ import annotations

from dataclasses import dataclass, field

from simsys.ops import Collective
from simsys.sums import ordered_sum


@dataclass(slots=True)
class Exchange:
    """Collectives along one axis.

    Args:
        op: One of them, for all.
        alone_s: Their time without computation.
        overlapped_s: Their time overlapped with computation.
        exposed_s: Additional time if each of them took twice as long.
    """

    op: Collective
    alone_s: float = 0.0
    overlapped_s: float = 0.0
    exposed_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Time of the collectives."""
        return self.alone_s + self.overlapped_s


@dataclass(slots=True)
class PassTimes:
    """Times of the passes of one rank by activity.

    Args:
        compute_s: Computation, and waiting for its launches.
        busy_s: Computation alone.
        exchanges: Their collectives, by axis.
        launched_s: How long the host has launched kernels, since their start.
    """

    compute_s: float = 0.0
    busy_s: float = 0.0
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    launched_s: float = 0.0

    @property
    def seconds(self) -> float:
        """From their start to their end."""
        return self.compute_s + ordered_sum(exchange.alone_s for exchange in self.exchanges.values())

    def compute(self, work_s: float, launching_s: float = 0.0) -> float:
        """Count a computation, which ends when it is done and all of it is launched; return its duration."""
        self.launched_s += launching_s
        seconds = max(work_s, self.launched_s - self.seconds) if launching_s else work_s
        self.compute_s += seconds
        self.busy_s += work_s
        return seconds

    def exchange(self, op: Collective, seconds: float, compute_s: float = 0.0) -> None:
        """Count a collective overlapped with a computation of `compute_s`, unless its time is zero."""
        if seconds:
            alone_s, overlapped_s = max(0.0, seconds - compute_s), min(compute_s, seconds)
            exposed_s = min(seconds, max(0.0, 2.0 * seconds - compute_s))
            self._exchanges(Exchange(op, alone_s, overlapped_s, exposed_s), 1)

    def _exchanges(self, each: Exchange, count: int) -> None:
        own = self.exchanges.setdefault(each.op.group.axis, Exchange(each.op))
        own.alone_s += count * each.alone_s
        own.overlapped_s += count * each.overlapped_s
        own.exposed_s += count * each.exposed_s

    def add(self, other: PassTimes, count: int) -> None:
        """Count `count` further passes like `other`."""
        self.compute_s += count * other.compute_s
        self.busy_s += count * other.busy_s
        for each in other.exchanges.values():
            self._exchanges(each, count)
