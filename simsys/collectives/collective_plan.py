"""A collective as it is carried out: an algorithm, the protocol of its transfers, and what software adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simsys.collectives.base import Algorithm, CollectiveKind, Path

Over = Callable[[Path], Path]
"""What becomes of an idle path under a protocol: no less latency, no more bandwidth."""


def unchanged(path: Path) -> Path:
    """A protocol that costs nothing."""
    return path


@dataclass(frozen=True, eq=False)
class CollectivePlan:
    """A way to carry out one kind of collective in one group, for messages of any size.

    With A seconds of overhead and latencies and W seconds of moving bytes, its time is A + W + ramp·√(A·W). The last
    term is due to chunks: more chunks overlap the steps better but add latencies. The best number of chunks leaves
    2·√(A·W) if all of A is paid for every chunk.

    Args:
        algorithm: The algorithm.
        kind: The kind of collective.
        size: Ranks in the group.
        paths: The idle path of each phase, or one for all, as for `Algorithm.seconds`.
        protocol: NCCL protocol; empty if protocols are not modelled.
        over: Maps a path to the path as seen by the protocol.
        overhead_s: Time to launch it.
        ramp: Weight of the last term.
    """

    algorithm: Algorithm
    kind: CollectiveKind
    size: int
    paths: Sequence[Path]
    protocol: str = ""
    over: Over = unchanged
    overhead_s: float = 0.0
    ramp: float = 0.0

    @cached_property
    def effective(self) -> tuple[Path, ...]:
        """The paths under the protocol."""
        return tuple(self.over(path) for path in self.paths)

    def seconds(self, nbytes: float) -> float:
        """Time of a collective with a full buffer of `nbytes` when nothing else uses the links; 0 for one rank.

        The closed form of an algorithm is a constant and a part in proportion to the bytes, so both are found once.
        """
        moving_s = self._seconds_per_byte * nbytes
        return self._fixed_s + moving_s + self.ramp * math.sqrt(self._fixed_s * moving_s) if self.size > 1 else 0.0

    def idle_s(self, nbytes: float) -> float:
        """The part of `seconds` that no transfer accounts for: the overhead and the ramp."""
        return self.overhead_s + self.ramp * math.sqrt(self._fixed_s * self._seconds_per_byte * nbytes)

    @cached_property
    def _fixed_s(self) -> float:
        return self.overhead_s + self.algorithm.seconds(self.kind, self.size, 0.0, self.effective)

    @cached_property
    def _seconds_per_byte(self) -> float:
        instant = [replace(path, latency_s=0.0) for path in self.effective]
        return self.algorithm.seconds(self.kind, self.size, 1.0, instant)
