"""Direct algorithms: every rank talks to every other at once, for a full mesh or a non-blocking switch.

With N ranks, a full buffer of S bytes and a path of latency L and bandwidth B for each pair:

==================  =======================  =================================================
all-reduce          2 · (S/(N·B) + L)        reduce-scatter, then all-gather
all-gather          S/(N·B) + L              each rank's block to every other
reduce-scatter      S/(N·B) + L              block i of every rank to rank i
all-to-all          S/(N·B) + L              block j of rank i to rank j
broadcast           S/B + L                  the root sends the message to each (a flat tree)
reduce              S/B + L                  each sends its message to the root
send-receive        S/B + L                  from i to i+1
==================  =======================  =================================================

All steps of the pairwise exchanges of Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication
operations in MPICH", Int. J. High Perform. Comput. Appl. 19(1) are concurrent.

B is the bandwidth of one transfer. Through a switch, the N-1 transfers of a rank share its link, so B is an (N-1)-th
of the link's bandwidth. In a group that spans nodes, transfers that leave a node over the same NIC share it. They are
sent node by node, to the same place in each, so that each NIC receives one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, one_per_phase, register_algorithm
from simsys.collectives.ring import shifted_pairs


@register_algorithm
class Direct(Algorithm):
    """All pairs at once: one step (two for all-reduce), whatever the size of the group.

    Args:
        per_node: Ranks of the group in each node, if it fills several evenly; decides the order only.
    """

    name = "direct"
    kinds = frozenset(CollectiveKind)

    def __init__(self, per_node: int = 1) -> None:
        self.per_node = per_node

    def for_nodes(self, per_node: int) -> Direct:
        """This algorithm with `per_node` ranks in each node."""
        return Direct(per_node)

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase, in which each rank's peers come in rotated order so that no two ranks begin with the same."""
        if kind == CollectiveKind.BROADCAST:
            return (Phase(tuple((0, rank) for rank in range(1, size)), 1.0),)
        if kind == CollectiveKind.REDUCE:
            return (Phase(tuple((rank, 0) for rank in range(1, size)), 1.0),)
        if kind == CollectiveKind.SEND_RECV:
            return (Phase(shifted_pairs(size, 1), 1.0),)
        each = self.per_node if size % self.per_node == 0 else 1
        shifts = [(node * each, place) for node in range(size // each) for place in range(each)]
        everyone = tuple(pair for shift in shifts[1:] for pair in _shifted(size, each, *shift))
        return (Phase(everyone, 1.0 / size, repeat=2 if kind == CollectiveKind.ALL_REDUCE else 1),)

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """The table at the head of this module."""
        (path,) = one_per_phase(paths, 1)
        if kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE, CollectiveKind.SEND_RECV):
            return path.seconds(nbytes)
        steps = 2 if kind == CollectiveKind.ALL_REDUCE else 1
        return steps * path.seconds(nbytes / size)


def _shifted(size: int, each: int, ranks: int, places: int) -> list[tuple[int, int]]:
    """Transfers from every rank to the rank at a given distance in nodes and in places within the node."""
    return [(rank, (rank // each * each + ranks) % size + (rank % each + places) % each) for rank in range(size)]
