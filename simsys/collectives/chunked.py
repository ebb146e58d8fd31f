"""Base of algorithms that cut a buffer into chunks, which are inside nodes and between them at the same time."""

from __future__ import annotations

from typing import Self

from simsys.collectives.base import Algorithm

CHUNKS = (1, 4, 16, 64)
"""The numbers of chunks that are compared."""


class Chunked(Algorithm):
    """An algorithm of groups that fill nodes.

    Args:
        per_node: Ranks of the group in each node.
        chunks: Into how many parts the buffer is cut.
    """

    ways_differ = True

    def __init__(self, per_node: int = 1, chunks: int = 16) -> None:
        self.per_node, self.chunks = per_node, chunks

    @property
    def label(self) -> str:
        """With the number of chunks."""
        return f"{self.name}*{self.chunks}"

    def for_nodes(self, per_node: int) -> Self:
        """This algorithm for a group with `per_node` ranks in each node."""
        return type(self)(per_node, self.chunks)

    def variants(self) -> tuple[Self, ...]:
        """More or fewer chunks."""
        return tuple(type(self)(self.per_node, chunks) for chunks in CHUNKS)
