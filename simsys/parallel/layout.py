"""Ranks and their coordinates: which rank is which part of every parallel dimension.

By default ranks are numbered with tensor parallelism fastest and data parallelism slower, then pipeline stages
(Narayanan et al. 2021, §3.1; Megatron-LM's default order tp-cp-ep-dp-pp), so that the groups with the most
traffic lie inside a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from simsys.errors import UsageError

AXES = ("tensor", "data", "pipeline")
"""Parallel dimensions, the fastest varying first."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Ranks that communicate, in the order of the algorithm; the same members are always the same object."""

    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.ranks)


@dataclass(frozen=True)
class Layout:
    """The arrangement of all ranks.

    Args:
        tensor: Tensor-parallel degree.
        data: Data-parallel degree.
        pipeline: Pipeline stages.
        order: The axes, the fastest varying first.
    """

    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    order: tuple[str, ...] = AXES

    def __post_init__(self) -> None:
        for axis in AXES:
            if getattr(self, axis) < 1:
                raise UsageError(f"the {axis}-parallel degree must be at least 1, not {getattr(self, axis)}")
        if sorted(self.order) != sorted(AXES):
            raise UsageError(f"the order must name each of {', '.join(AXES)} once, not {', '.join(self.order)}")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.tensor * self.data * self.pipeline

    def coordinates(self, rank: int) -> Mapping[str, int]:
        """Where `rank` stands on every axis.

        Example:
            >>> Layout(tensor=4, data=2).coordinates(6)
            {'tensor': 2, 'data': 1, 'pipeline': 0}
        """
        if not 0 <= rank < self.world_size:
            raise UsageError(f"rank {rank} is outside 0..{self.world_size - 1}")
        place = {}
        for axis in self.order:
            rank, place[axis] = divmod(rank, getattr(self, axis))
        return place

    def rank_of(self, coordinates: Mapping[str, int]) -> int:
        """The rank at the given coordinates."""
        rank = 0
        for axis in reversed(self.order):
            rank = rank * getattr(self, axis) + coordinates[axis]
        return rank

    def group(self, rank: int, over: str) -> Group:
        """The ranks that differ from `rank` only along the axis `over`, `rank` among them.

        Raises:
            UsageError: If there is no such axis.
        """
        if over not in AXES:
            raise UsageError(f"no parallel axis {over!r}; known: {', '.join(AXES)}")
        place = dict(self.coordinates(rank))
        return self._group_of(tuple(self.rank_of(place | {over: index}) for index in range(getattr(self, over))))

    def split(self, rank: int, over: str, size: int) -> tuple[Group, Group]:
        """The group along the axis `over`, divided into consecutive runs of `size` ranks.

        Returns:
            The run that `rank` is in, and the ranks at the same place in all runs.

        Raises:
            UsageError: If there is no such axis, or its degree is no multiple of `size`.

        Example:
            >>> inner, outer = Layout(data=8).split(5, "data", 4)
            >>> inner.ranks, outer.ranks
            ((4, 5, 6, 7), (1, 5))
        """
        ranks = self.group(rank, over).ranks
        if size < 1 or len(ranks) % size:
            raise UsageError(f"the {over}-parallel group of {len(ranks)} ranks cannot be divided into runs of {size}")
        run, place = divmod(ranks.index(rank), size)
        return self._group_of(ranks[run * size : (run + 1) * size]), self._group_of(ranks[place::size])

    def ends(self, rank: int, over: str) -> Group:
        """The first and the last rank of the group along the axis `over`."""
        ranks = self.group(rank, over).ranks
        return self._group_of((ranks[0], ranks[-1]) if len(ranks) > 1 else ranks)

    def roles(self) -> tuple[tuple[int, ...], ...]:
        """Sets of ranks that do the same work at the same time on equal devices: one per pipeline stage."""
        stages: list[list[int]] = [[] for _ in range(self.pipeline)]
        for rank in range(self.world_size):
            stages[self.coordinates(rank)["pipeline"]].append(rank)
        return tuple(tuple(stage) for stage in stages)

    def _group_of(self, ranks: tuple[int, ...]) -> Group:
        """The one group of these ranks."""
        return self._groups.setdefault(ranks, Group(ranks))

    @cached_property
    def _groups(self) -> dict[tuple[int, ...], Group]:
        return {}
