"""Reduction in the switches of the fabric and of each node: CollNet with NVLS; `collnet.py` has the equations."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.collectives.base import Span, register_algorithm
from simsys.collectives.collnet import Collnet
from simsys.collectives.ring import shifted_pairs


@register_algorithm
class CollnetNvls(Collnet):
    """Reduction in the switches between nodes and in the switch of each node."""

    name = "collnet_nvls"

    def suits(self, span: Span) -> bool:
        """The algorithm needs several nodes of several ranks."""
        return span.nodes > 1 and span.per_node > 1

    def inside(self) -> Iterator[tuple[int, int]]:
        """A chunk up and its sums down, in blocks."""
        for _ in range(self.per_node + 1):
            yield from shifted_pairs(self.per_node, 1)
