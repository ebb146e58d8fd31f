"""Trees across nodes with in-switch reduction, pipelined in chunks: NCCL's NVLSTree.

The switch of each node sums a chunk into the owners of its blocks. GPUs with the same place in their nodes all-reduce
their blocks over two trees, and the switch multicasts the sums (NVIDIA/nccl, 2.18 and later, src/device/all_reduce.h,
``NCCL_ALGO_NVLS_TREE``). While the NICs carry one chunk, the switches process other chunks, so the slower of both
counts; for `nvls/double_tree`, it is their sum. With m nodes of g ranks, C chunks and a full buffer of S bytes, every
step moves for each GPU (1 + 1/g)·S/C over its link to the switch, both ways, and for each node at most 2·S/C over its
cards (S/C if there are two nodes); h = ⌈log₂ m⌉ levels of the trees::

    all-reduce   (C + 2h + 1) · (L + S/(2·g·C) · max((2g + 2)/B1, k/B2))      k transfers of half a block at a card

Latency and bandwidth share of a step are assumed as for trees.
"""

from __future__ import annotations

from collections.abc import Iterator

from simsys.collectives.base import CollectiveKind, Phase, Span, register_algorithm
from simsys.collectives.chunked import Chunked
from simsys.collectives.double_tree import in_turns, two_trees
from simsys.collectives.ring import shifted_pairs
from simsys.errors import UsageError


@register_algorithm
class NvlsTree(Chunked):
    """Reduction in the switch of every node and trees across nodes at the same time.

    Args:
        per_node: Ranks of the group in each node.
        chunks: Into how many parts the buffer is cut.
    """

    name = "nvls_tree"
    pattern = "nvls_tree"
    kinds = frozenset({CollectiveKind.ALL_REDUCE, CollectiveKind.BARRIER})

    def suits(self, span: Span) -> bool:
        """The algorithm needs at least two nodes with at least two ranks each."""
        return span.nodes > 1 and span.per_node > 1

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase: switches and trees work at once, each on another chunk."""
        if size % self.per_node:
            raise UsageError(f"a group of {size} ranks does not fill nodes of {self.per_node}")
        nodes = size // self.per_node
        steps = self.chunks + 2 * (nodes - 1).bit_length() + 1
        transfers = (*self._inside(nodes), *in_turns(self._across(nodes)))
        return (Phase(transfers, 0.5 / (self.per_node * self.chunks), repeat=steps, pattern="tree"),)

    def _inside(self, nodes: int) -> Iterator[tuple[int, int]]:
        """A chunk up and its sums down, in blocks of the size of those across nodes."""
        each = self.per_node
        for _ in range(2 * each + 2):
            for node in range(nodes):
                yield from ((node * each + src, node * each + dst) for src, dst in shifted_pairs(each, 1))

    def _across(self, nodes: int) -> Iterator[tuple[int, int]]:
        """Half a block up and down every edge of both trees."""
        for place in range(self.per_node):
            for parents in two_trees(nodes):
                for child, parent in parents.items():
                    up = child * self.per_node + place, parent * self.per_node + place
                    yield from (up, up[::-1])
