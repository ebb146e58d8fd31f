"""Ranks and their coordinates in all dimensions of parallelism.

By default ranks are numbered with tensor parallelism fastest, then context, (expert,) data and pipeline parallelism
(Narayanan et al. 2021, §3.1; Megatron-LM's default order tp-cp-ep-dp-pp), so that the groups with the most traffic
lie inside a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from simsys.errors import UsageError

AXES = ("tensor", "context", "data", "pipeline")
"""Dimensions in which ranks have coordinates, the fastest varying first."""
GROUPS = ("tensor", "context", "data", "expert", "expert_data", "pipeline")
"""Sets of ranks that communicate.

``data`` is all ranks with equal weights, including those of all parts of a sequence (context parallelism). ``expert``
divides it into ranks with different experts, ``expert_data`` into ranks with equal experts.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Communicating ranks, in the order of the algorithm; equal groups are the same object.

    Args:
        ranks: The members.
        axis: Axis of parallelism, a name in `GROUPS`; each axis has its own communicators, as in Megatron-LM.
    """

    ranks: tuple[int, ...]
    axis: str

    @property
    def size(self) -> int:
        """Number of ranks in the group."""
        return len(self.ranks)


@dataclass(frozen=True)
class Layout:
    """The arrangement of all ranks.

    Args:
        tensor: Tensor-parallel degree.
        context: Context-parallel degree: parts that each sequence is divided into.
        data: Data-parallel degree.
        pipeline: Pipeline stages.
        expert: Expert-parallel degree: a division of the ranks that hold the same weights.
        order: The axes and, if wanted, ``expert``, the fastest varying first; experts lie in neighbouring ranks of
            ``data`` if ``expert`` comes before it (or is left out), else in distant ones.
        whole_experts: Whether tensor parallelism leaves experts whole, so that its ranks divide them, too (Megatron
            Core: ``expert_tensor_parallel_size`` 1).
    """

    tensor: int = 1
    context: int = 1
    data: int = 1
    pipeline: int = 1
    expert: int = 1
    order: tuple[str, ...] = AXES
    whole_experts: bool = False

    def __post_init__(self) -> None:
        for axis in (*AXES, "expert"):
            if getattr(self, axis) < 1:
                raise UsageError(f"the {axis}-parallel degree must be at least 1, not {getattr(self, axis)}")
        if sorted(axis for axis in self.order if axis != "expert") != sorted(AXES) or self.order.count("expert") > 1:
            raise UsageError(f"the order must name each of {', '.join(AXES)} once, not {', '.join(self.order)}")
        if self.expert_replicas % self.expert:
            raise UsageError(
                f"the expert-parallel degree {self.expert} does not divide the {self.expert_replicas} ranks that hold "
                f"the same weights ({'tensor times ' if self.whole_experts else ''}data times context parallelism)"
            )

    @property
    def world_size(self) -> int:
        """Number of ranks in the layout."""
        return self.tensor * self.replicas * self.pipeline

    @property
    def replicas(self) -> int:
        """Number of ranks with equal weights."""
        return self.context * self.data

    @property
    def expert_replicas(self) -> int:
        """Number of ranks among which expert parallelism divides the experts of a stage."""
        return self.replicas * (self.tensor if self.whole_experts else 1)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the coordinates, the fastest varying first."""
        return tuple(axis for axis in self.order if axis != "expert")

    def coordinates(self, rank: int) -> Mapping[str, int]:
        """Where `rank` stands on every axis.

        Examples:
            >>> Layout(tensor=4, data=2).coordinates(6)
            {'tensor': 2, 'context': 0, 'data': 1, 'pipeline': 0}
        """
        if not 0 <= rank < self.world_size:
            raise UsageError(f"rank {rank} is outside 0..{self.world_size - 1}")
        place = {}
        for axis in self.axes:
            rank, place[axis] = divmod(rank, getattr(self, axis))
        return place

    def rank_of(self, coordinates: Mapping[str, int]) -> int:
        """The rank at the given coordinates."""
        rank = 0
        for axis in reversed(self.axes):
            rank = rank * getattr(self, axis) + coordinates[axis]
        return rank

    def group(self, rank: int, over: str) -> Group:
        """The group of `rank`, one of `GROUPS`.

        Raises:
            UsageError: If there is no such kind of group.
        """
        key = rank, over
        if key not in self._group_of_rank:
            for group in self._groups_like(rank, over):
                self._group_of_rank.update({(member, over): group for member in group.ranks})
        return self._group_of_rank[key]

    def split(self, rank: int, over: str, size: int) -> tuple[Group, Group]:
        """The group along the axis `over`, divided into consecutive runs of `size` ranks.

        Returns:
            The run that `rank` is in, and the ranks at the same place in all runs.

        Raises:
            UsageError: If there is no such axis, or its degree is no multiple of `size`.

        Examples:
            >>> inner, outer = Layout(data=8).split(5, "data", 4)
            >>> inner.ranks, outer.ranks
            ((4, 5, 6, 7), (1, 5))
        """
        ranks = self.group(rank, over).ranks
        if size < 1 or len(ranks) % size:
            raise UsageError(f"the {over}-parallel group of {len(ranks)} ranks cannot be divided into runs of {size}")
        run, place = divmod(ranks.index(rank), size)
        return self._group(ranks[run * size : (run + 1) * size], over), self._group(ranks[place::size], over)

    def ends(self, rank: int, over: str) -> Group:
        """The first and the last rank of the group along the axis `over`."""
        ranks = self.group(rank, over).ranks
        return self._group((ranks[0], ranks[-1]) if len(ranks) > 1 else ranks, over)

    def opposite(self, rank: int, over: str) -> Group:
        """A rank and the one at its place from the other end of the group along the axis `over`."""
        ranks = self.group(rank, over).ranks
        both = {rank, ranks[-1 - ranks.index(rank)]}
        return self._group(tuple(sorted(both)), over)

    def roles(self) -> tuple[tuple[int, ...], ...]:
        """Sets of ranks that do the same work at the same time on equal devices: one per pipeline stage."""
        stages: list[list[int]] = [[] for _ in range(self.pipeline)]
        for rank in range(self.world_size):
            stages[self.coordinates(rank)["pipeline"]].append(rank)
        return tuple(tuple(stage) for stage in stages)

    def _groups_like(self, rank: int, over: str) -> list[Group]:
        """The group of `rank`, and other groups found along with it."""
        if over not in GROUPS:
            raise UsageError(f"no parallel axis {over!r}; known: {', '.join(GROUPS)}")
        if over == "data":
            return [self._group(self._along(rank, ("context", "data")), over)]
        if over in AXES:
            return [self._group(self._along(rank, (over,)), over)]
        replicas = self.group(rank, "data").ranks
        if self.whole_experts:
            replicas = self._along(rank, ("tensor", "context", "data"))
        spread = "expert" in self.order and self.order.index("expert") > self.order.index("data")
        run = self.expert_replicas // self.expert if spread else self.expert
        if (over == "expert_data") == spread:
            members = [replicas[first : first + run] for first in range(0, len(replicas), run)]
        else:
            members = [replicas[place::run] for place in range(run)]
        return [self._group(ranks, over) for ranks in members]

    def _along(self, rank: int, axes: Iterable[str]) -> tuple[int, ...]:
        """The ranks that differ from `rank` only in their places on `axes`."""
        places = [dict(self.coordinates(rank))]
        for axis in axes:
            places = [place | {axis: index} for place in places for index in range(getattr(self, axis))]
        return tuple(sorted(self.rank_of(place) for place in places))

    def _group(self, ranks: tuple[int, ...], axis: str) -> Group:
        """The one group of these ranks along this axis."""
        return self._groups.setdefault((ranks, axis), Group(ranks, axis))

    @cached_property
    def _groups(self) -> dict[tuple[tuple[int, ...], str], Group]:
        return {}

    @cached_property
    def _group_of_rank(self) -> dict[tuple[int, str], Group]:
        return {}
