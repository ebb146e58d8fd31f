"""Chains: the buffer goes from the root from rank to rank in small blocks, or towards the root to be summed.

This is NCCL's broadcast and its reduce (NVIDIA/nccl, src/device/broadcast.h and reduce.h): its rings, cut before the
root. With N ranks, a full buffer of S bytes and a path of latency L and bandwidth B between neighbours:

    broadcast, reduce     (N-1) · L + S/B

This is the limit of infinitely small blocks; the cost of filling the chain is the ramp of a `CollectivePlan`. So every
link carries S/(N-1) in each of N-1 steps. In groups that fill nodes there is one chain for each rank of a node, with
an equal part of the buffer, and each leaves the nodes over another NIC, as in `rail_ring`.
"""

from __future__ import annotations

from itertools import pairwise

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, register_algorithm
from simsys.collectives.rail_ring import ring_through_nodes


@register_algorithm
class Chain(Algorithm):
    """Latency that grows as N, at the full bandwidth whatever N.

    Args:
        per_node: Ranks of the group in each node; 1 makes it a single chain.
    """

    name = "chain"
    kinds = frozenset({CollectiveKind.BROADCAST, CollectiveKind.REDUCE})

    def __init__(self, per_node: int = 1) -> None:
        self.per_node = per_node

    def for_nodes(self, per_node: int) -> Chain:
        """This algorithm for a group with `per_node` ranks in each node."""
        return Chain(per_node)

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase, in which all links of all chains are busy."""
        each = self.per_node if self.per_node < size else 1  # inside a node all chains would be the same
        chains = [_chain(size, each, first) for first in range(each)]
        pairs = [pair for chain in chains for pair in pairwise(chain)]
        if kind == CollectiveKind.REDUCE:
            pairs = [(dst, src) for src, dst in pairs]
        return (Phase(tuple(pairs), 1.0 / ((size - 1) * len(chains)), repeat=size - 1),)


def _chain(size: int, each: int, first: int) -> list[int]:
    """A ring, cut before rank 0."""
    ring = ring_through_nodes(size, each, first)
    root = ring.index(0)
    return ring[root:] + ring[:root]
