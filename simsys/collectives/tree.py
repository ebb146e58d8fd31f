"""Tree algorithms: the whole buffer goes up and down a binomial tree rooted at index 0.

With N ranks, S bytes and a path of latency L and bandwidth B, a broadcast or a reduce needs ⌈log₂ N⌉ · (S/B + L). An
all-reduce, a reduce followed by a broadcast, needs twice the time (Thakur, Rabenseifner & Gropp 2005, "Optimization of
collective communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19(1), the algorithms for short
messages).

The tree is binomial rather than strictly binary, so a rank sends or receives at most one message per step, and no two
messages of a step reach one parent. Any N is allowed, not only powers of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, one_per_phase, register_algorithm
from simsys.sums import ordered_sum


@register_algorithm
class Tree(Algorithm):
    """Few steps but full-size messages: for small messages in large groups."""

    name = "tree"
    pattern = "tree"
    kinds = frozenset(
        {CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE, CollectiveKind.BARRIER}
    )

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase per level: up to reduce, down to broadcast, both for an all-reduce."""
        distances = [1 << level for level in range(_levels(size))]
        down = tuple(
            Phase(_parent_to_child(size, distance), 1.0, pattern=self.pattern) for distance in reversed(distances)
        )
        if kind == CollectiveKind.BROADCAST:
            return down
        up = tuple(replace(phase, transfers=reversed_pairs(phase.transfers)) for phase in down[::-1])
        return up if kind == CollectiveKind.REDUCE else up + down

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """Sum of S/B + L over the levels, each with its own path."""
        steps = _levels(size) * (2 if kind == CollectiveKind.ALL_REDUCE else 1)
        return ordered_sum(path.seconds(nbytes) for path in one_per_phase(paths, steps))


def reversed_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Every transfer the other way."""
    return tuple((dst, src) for src, dst in pairs)


def _levels(size: int) -> int:
    return (size - 1).bit_length()  # ⌈log₂ size⌉


def _parent_to_child(size: int, distance: int) -> tuple[tuple[int, int], ...]:
    return tuple((parent, parent + distance) for parent in range(0, size - distance, 2 * distance))
