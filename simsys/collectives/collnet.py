"""Reduction in the switches of the fabric (SHARP), pipelined in chunks: NCCL's CollNet.

Switches of InfiniBand (Quantum and later, or Switch-IB 2) add up what nodes send and send the sum to all of them
(Graham et al. 2016, "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC). The GPUs of a node reduce-scatter a
chunk, each sends its block to the switches, and they all-gather the sums (NVIDIA/nccl, src/device/all_reduce.h,
``NCCL_ALGO_COLLNET_DIRECT``), while other chunks are on other links. So a node sends the buffer once, for any number
of nodes. With g ranks in each node, C chunks and a full buffer of S bytes, every step moves for each GPU
2(g-1)·S/(g·C) over its link inside the node, and S/(g·C) over its card::

    collnet        (C + 2) · (L + S/(g·C) · max(2(g-1)/B1, 1/B2))
    collnet_nvls   (C + 2) · (L + S/(g·C) · max((g+1)/B1, 1/B2))      the switch of each node adds up too

The transfers across form rings of nodes, which load every link to and from the switches once; sums in switches have
no sender.
"""

from __future__ import annotations

from collections.abc import Iterator

from simsys.collectives.base import CollectiveKind, Phase, Span, register_algorithm
from simsys.collectives.chunked import Chunked
from simsys.collectives.ring import shifted_pairs
from simsys.errors import UsageError


@register_algorithm
class Collnet(Chunked):
    """Reduction in the switches between nodes, with direct exchange inside them.

    Args:
        per_node: Ranks of the group in each node.
        chunks: Into how many parts the buffer is cut.
    """

    name = "collnet"
    pattern = "collnet"
    kinds = frozenset({CollectiveKind.ALL_REDUCE, CollectiveKind.BARRIER})

    def suits(self, span: Span) -> bool:
        """The algorithm needs several nodes."""
        return span.nodes > 1

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase: links inside and across work at once, each on another chunk."""
        each = self.per_node
        if size % each:
            raise UsageError(f"a group of {size} ranks does not fill nodes of {each}")
        across = [
            ((src * each + place), (dst * each + place))
            for src, dst in shifted_pairs(size // each, 1)
            for place in range(each)
        ]
        inside = [(node + src, node + dst) for node in range(0, size, each) for src, dst in self.inside()]
        pairs = (*inside, *across)
        return (Phase(pairs, 1.0 / (each * self.chunks), repeat=self.chunks + 2, pattern=self.pattern),)

    def inside(self) -> Iterator[tuple[int, int]]:
        """Blocks among the GPUs of a node in a step: every GPU's to their owners, and the sums from them."""
        for shift in range(1, self.per_node):
            yield from (*shifted_pairs(self.per_node, shift), *shifted_pairs(self.per_node, shift))
