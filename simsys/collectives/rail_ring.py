"""Concurrent rings, one per rank of a node, which leave a node over different NICs.

This is NCCL's ring on nodes with one NIC per GPU. Every channel is a ring over all ranks, and the
channels enter and leave a node at different GPUs (NVIDIA/nccl, src/graph/search.cc), so all NICs carry traffic.
With g ranks in each of m nodes, N = m·g, a full buffer of S bytes, and in every step g transfers of S/(g·N) from each
rank, g-1 of which stay inside the node (bandwidth B1 of a GPU) while one leaves it (bandwidth B2 of a NIC)::

    all-reduce                    2(N-1) · (L + S/N · max((g-1)/(g·B1), 1/(g·B2)))
    all-gather, reduce-scatter     (N-1) · (the same)

Group indexes are node by node: index n·g + i is place i of node n. Ring k goes upwards through nodes of even number,
from place k on and to place k-1, and downwards through nodes of odd number. So it enters a node at the place at which
it left the previous one (rail by rail). The only exception is from the last to the first node, if their number is odd.
"""

from __future__ import annotations

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, Span, register_algorithm
from simsys.errors import UsageError


@register_algorithm
class RailRing(Algorithm):
    """One ring for each rank of a node, over all ranks of the group, so that every network card is used.

    Args:
        per_node: Ranks of the group in each node; 1 makes it a single ring.
    """

    name = "rail_ring"
    kinds = frozenset(
        {
            CollectiveKind.ALL_REDUCE,
            CollectiveKind.ALL_GATHER,
            CollectiveKind.REDUCE_SCATTER,
            CollectiveKind.BARRIER,
        }
    )

    def __init__(self, per_node: int = 1) -> None:
        self.per_node = per_node

    def for_nodes(self, per_node: int) -> RailRing:
        """This algorithm for a group with `per_node` ranks in each node."""
        return RailRing(per_node)

    def suits(self, span: Span) -> bool:
        """The algorithm needs at least two nodes with at least two ranks each."""
        return span.nodes > 1 and span.per_node > 1

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase: all rings turn at once."""
        # from place 1 on, so that a card which two ranks share receives from another one's first and from one's second
        rings = [ring_through_nodes(size, self.per_node, first + 1) for first in range(self.per_node)]
        pairs = [(ring[i], ring[(i + 1) % size]) for ring in rings for i in range(size)]
        steps = (size - 1) * (2 if kind == CollectiveKind.ALL_REDUCE else 1)
        return (Phase(tuple(pairs), 1.0 / (size * self.per_node), repeat=steps),)


def ring_through_nodes(size: int, each: int, first: int) -> list[int]:
    """The order of one ring: up through one node and down through the next.

    Args:
        size: Ranks.
        each: Of these in each node.
        first: The place of a node at which it begins.

    Raises:
        UsageError: If they do not fill their nodes.
    """
    if size % each:
        raise UsageError(f"a group of {size} ranks does not fill nodes of {each}")
    up = [(first + i) % each for i in range(each)]
    return [node * each + place for node in range(size // each) for place in (up[::-1] if node % 2 else up)]
