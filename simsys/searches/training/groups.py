"""The groups of ranks with which a rank of each pipeline stage communicates."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from simsys.parallel.layout import Group, Layout


class Groups:
    """The groups of one rank of every pipeline stage; of one stage only if all stages lie alike on the nodes.

    Args:
        layout: The arrangement of the ranks.
        number: Returns a number that stands for a key.
        alike: Whether all stages lie alike.
    """

    def __init__(self, layout: Layout, number: Callable[[Hashable], int], *, alike: bool) -> None:
        self._layout = layout
        inner = dict.fromkeys(layout.axes, 0)
        stages = range(1 if alike else layout.pipeline)
        self._first = [layout.rank_of({**inner, "pipeline": stage}) for stage in stages]
        self._along: dict[str, list[Group]] = {}
        axes = "tensor", "context", "expert"
        self.key = number(tuple(group.ranks for axis in axes for group in self.along(axis)))
        """Equal for groups that communicate in passes in equal times."""
        self.whole_key = self.key, number(tuple(group.ranks for group in self.along("data")))
        """Equal for groups that communicate in equal times."""

    def along(self, over: str) -> list[Group]:
        """The group along an axis, for each stage."""
        found = self._along.get(over)
        if found is None:
            found = self._along[over] = [self._layout.group(rank, over) for rank in self._first]
        return found

    def split(self, over: str, size: int) -> list[tuple[Group, Group]]:
        """For each stage, the ranks that divide model states if neighbours do, and the ranks with equal shards."""
        return [self._layout.split(rank, over, size) for rank in self._first]
