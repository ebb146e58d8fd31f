"""Recursive halving and doubling: ⌈log₂ N⌉ steps in which ranks exchange ever smaller or larger parts.

With N ranks, a full buffer of S bytes and a path of latency L and bandwidth B, for N a power of two:

==================  ==========================================  ====================================
reduce-scatter      log₂ N · L + (N-1)/N · S/B                  halving: partners exchange halves
all-gather          log₂ N · L + (N-1)/N · S/B                  doubling
all-reduce          2 log₂ N · L + 2(N-1)/N · S/B               both, one after the other
==================  ==========================================  ====================================

Rabenseifner 2004, "Optimization of collective reduction operations", ICCS. Otherwise, with P the largest power of two
below N, each of N - P ranks first sends its buffer to a neighbour and receives the result at the end. So an all-reduce
needs 2(S/B + L) more than one of P ranks. The all-gather of any N is from Bruck et al. 1997, "Efficient algorithms for
all-to-all communications in multiport message-passing systems", IEEE TPDS 8(11), and a reduce-scatter is its reverse:
⌈log₂ N⌉ · L + (N-1)/N · S/B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, one_per_phase, register_algorithm
from simsys.collectives.tree import reversed_pairs
from simsys.sums import ordered_sum


@register_algorithm
class HalvingDoubling(Algorithm):
    """As few bytes as a ring in as few steps as a tree, between partners ever farther apart."""

    name = "halving_doubling"
    kinds = frozenset(
        {
            CollectiveKind.ALL_REDUCE,
            CollectiveKind.ALL_GATHER,
            CollectiveKind.REDUCE_SCATTER,
            CollectiveKind.BARRIER,
        }
    )

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase for each distance; in an all-reduce the ranks beyond a power of two come first and last."""
        if kind == CollectiveKind.ALL_GATHER:
            return _doubling(size, range(size))
        if kind == CollectiveKind.REDUCE_SCATTER:
            return _halving(size, range(size))
        core = 1 << (size.bit_length() - 1)
        folded = tuple((2 * i, 2 * i + 1) for i in range(size - core))
        ranks = [*(pair[1] for pair in folded), *range(2 * len(folded), size)]
        inner = _halving(core, ranks) + _doubling(core, ranks)
        if not folded:
            return inner
        return (Phase(folded, 1.0), *inner, Phase(reversed_pairs(folded), 1.0))

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """The table at the head of this module, with each phase's own path."""
        core = 1 << (size.bit_length() - 1) if kind == CollectiveKind.ALL_REDUCE else size
        grow = [blocks / core for _, blocks in _distances(core)]
        if kind == CollectiveKind.ALL_GATHER:
            fractions = grow
        elif kind == CollectiveKind.REDUCE_SCATTER:
            fractions = grow[::-1]
        else:
            ends = [1.0] if core < size else []
            fractions = [*ends, *grow[::-1], *grow, *ends]
        each = one_per_phase(paths, len(fractions))
        return ordered_sum(path.seconds(part * nbytes) for part, path in zip(fractions, each, strict=True))


def _doubling(size: int, ranks: Sequence[int]) -> tuple[Phase, ...]:
    """All-gather: each rank sends its blocks over increasing distances."""
    return tuple(
        Phase(tuple((ranks[i], ranks[_partner(i, distance, size)]) for i in range(size)), blocks / size)
        for distance, blocks in _distances(size)
    )


def _halving(size: int, ranks: Sequence[int]) -> tuple[Phase, ...]:
    """Reduce-scatter: the all-gather backwards."""
    return tuple(replace(phase, transfers=reversed_pairs(phase.transfers)) for phase in _doubling(size, ranks)[::-1])


def _distances(size: int) -> list[tuple[int, int]]:
    """How far each step goes, and how many blocks it carries: as many as a rank has, and no more than are missing."""
    return [(1 << level, min(1 << level, size - (1 << level))) for level in range((size - 1).bit_length())]


def _partner(rank: int, distance: int, size: int) -> int:
    """Ranks exchange in pairs if there is a power of two of them; else each sends backwards."""
    return rank ^ distance if size & (size - 1) == 0 else (rank - distance) % size
