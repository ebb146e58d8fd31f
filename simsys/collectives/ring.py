"""Ring algorithms: every rank talks to its neighbour only, and every link is busy in every step.

With N ranks, a full buffer of S bytes and a path of latency L and bandwidth B between neighbours:

==================  ============================  =============================================
all-reduce          2(N-1) · (S/(N·B) + L)        reduce-scatter, then all-gather
all-gather          (N-1) · (S/(N·B) + L)         step k passes on the block that came in step k-1
reduce-scatter      (N-1) · (S/(N·B) + L)         as all-gather, adding the rank's own
broadcast           2(N-1) · (S/(N·B) + L)        scatter, then all-gather
reduce              2(N-1) · (S/(N·B) + L)        reduce-scatter, then gather
all-to-all          (N-1) · (S/(N·B) + L)         pairwise exchange: step k goes from i to i+k
send-receive        S/B + L                       from i to i+1
==================  ============================  =============================================

The first three: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
J. Parallel Distrib. Comput. 69(2). The others: Thakur, Rabenseifner & Gropp 2005, "Optimization of collective
communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19(1), the algorithms for long messages;
but here the root of a broadcast sends each rank its block in turn instead of scattering down a tree; reduce is
analogous. NCCL's pipelined ring approaches S/B for large S, so these two are up to twice as slow; see `chain`.
"""

from __future__ import annotations

from collections.abc import Sequence

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, one_per_phase, register_algorithm
from simsys.sums import ordered_sum


@register_algorithm
class Ring(Algorithm):
    """Blocks of S/N bytes travel around the ring; bandwidth-optimal, with a latency that grows as N."""

    name = "ring"
    kinds = frozenset(CollectiveKind)

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase around the ring; single steps for the scatter of a broadcast, its mirror and all-to-all."""
        if kind == CollectiveKind.SEND_RECV:
            return (Phase(shifted_pairs(size, 1), 1.0),)
        block = 1.0 / size
        if kind == CollectiveKind.ALL_TO_ALL:
            return tuple(Phase(shifted_pairs(size, step), block) for step in range(1, size))
        steps = 2 * (size - 1) if kind == CollectiveKind.ALL_REDUCE else size - 1
        around = Phase(shifted_pairs(size, 1), block, repeat=steps)
        if kind == CollectiveKind.BROADCAST:
            return (*(Phase(((0, rank),), block) for rank in range(1, size)), around)
        if kind == CollectiveKind.REDUCE:
            return (around, *(Phase(((rank, 0),), block) for rank in range(1, size)))
        return (around,)

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """The table at the head of this module, with each phase's own path."""
        block_bytes = nbytes / size
        if kind == CollectiveKind.ALL_TO_ALL:
            return ordered_sum(path.seconds(block_bytes) for path in one_per_phase(paths, size - 1))
        if kind == CollectiveKind.BROADCAST:
            *scatter, around = one_per_phase(paths, size)
            along = ordered_sum(path.seconds(block_bytes) for path in scatter)
            return along + (size - 1) * around.seconds(block_bytes)
        if kind == CollectiveKind.REDUCE:
            around, *gather = one_per_phase(paths, size)
            return (size - 1) * around.seconds(block_bytes) + ordered_sum(path.seconds(block_bytes) for path in gather)
        (around,) = one_per_phase(paths, 1)
        if kind == CollectiveKind.SEND_RECV:
            return around.seconds(nbytes)
        steps = 2 * (size - 1) if kind == CollectiveKind.ALL_REDUCE else size - 1
        return steps * around.seconds(block_bytes)


def shifted_pairs(size: int, shift: int) -> tuple[tuple[int, int], ...]:
    """Every rank to the one `shift` places after it, around the group."""
    return tuple((rank, (rank + shift) % size) for rank in range(size))
