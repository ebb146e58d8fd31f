"""Collectives of a group that wait until every member has called them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from simpy.events import Event

from simsys.errors import UsageError
from simsys.executors.deadlock import ranks_shown
from simsys.ops import Collective
from simsys.parallel.layout import Group
from simsys.platform.environment import Environment
from simsys.platform.events import Callback


class Meeting:
    """One collective of a group, from the first member that joins to its end."""

    __slots__ = ("event", "missing", "op", "ready_s")

    def __init__(self, op: Collective, members: int, env: Environment) -> None:
        self.op = op
        self.event = Event(env)
        self.missing = members
        self.ready_s = 0.0


Part = tuple[Sequence[int], Callable[[Callback], None]]
"""Mirrors of a group in lockstep, by their shifts, and the recurring collective for them."""


class Turn:
    """A collective of a group that all members have joined.

    Args:
        op: The collective.
        ready_s: When the last member is ready.
        ended: Called at its end.
    """

    __slots__ = ("ended", "left", "op", "ready_s", "started_s", "waiting")

    def __init__(self, op: Collective, ready_s: float, ended: Callable[[], object]) -> None:
        self.op, self.ready_s, self.ended = op, ready_s, ended
        self.waiting: list[Part] | None = None
        """Parts that have not started; none before the turn has begun."""
        self.left: list[Part] = []
        """Parts that have not ended."""
        self.started_s = 0.0
        """When its first part started."""


class Meetings:
    """Collectives of a group called by some of its members.

    Args:
        group: The ranks.
        members: Number of simulated members.
        env: The environment.
    """

    def __init__(self, group: Group, members: int, env: Environment) -> None:
        self._group, self._members, self._env = group, members, env
        self._calls: dict[int, int] = {}
        self._open: dict[int, Meeting] = {}

    @property
    def under_way(self) -> int:
        """Number of collectives that some members have joined, and others not yet."""
        return len(self._open)

    def join(self, op: Collective, ready_s: float) -> Meeting:
        """A member joins its next collective with its part ready at `ready_s`.

        Raises:
            UsageError: If another member has called a different collective at this point.
        """
        call = self._calls.get(op.rank, 0)
        if not call and op.rank not in self._group.ranks:
            message = f"rank {op.rank} calls {op.kind} {op.name!r} of a group that it is not in"
            raise UsageError(f"{message}: {ranks_shown(self._group.ranks)}")
        self._calls[op.rank] = call + 1
        meeting = self._open.get(call)
        if meeting is None:
            meeting = self._open[call] = Meeting(op, self._members, self._env)
        first = meeting.op
        if first.kind is not op.kind or first.nbytes != op.nbytes:
            raise UsageError(
                f"mismatched collectives: rank {op.rank} calls {op.kind} {op.name!r} of {op.nbytes:.0f} bytes where "
                f"rank {first.rank} called {first.kind} {first.name!r} of {first.nbytes:.0f} bytes"
            )
        meeting.missing -= 1
        if ready_s > meeting.ready_s:
            meeting.ready_s = ready_s
        if not meeting.missing:
            del self._open[call]
        return meeting

    def waiting(self, members: Iterable[int]) -> list[tuple[Meeting, list[int]]]:
        """Collectives that some of the members have not joined, and which members these are."""
        return [
            (meeting, [rank for rank in members if self._calls.get(rank, 0) <= call])
            for call, meeting in self._open.items()
        ]


def check_group(group: Group, ranks: Collection[int]) -> None:
    """Whether ranks of a job can communicate as a group.

    Raises:
        UsageError: If there is none, one of them twice, or one that is not among the ranks of the job.
    """
    if not group.ranks:
        raise UsageError("a group of no ranks; name at least one")
    if len(set(group.ranks)) < group.size:
        twice = max(group.ranks, key=group.ranks.count)
        raise UsageError(f"rank {twice} is more than once in a group: {ranks_shown(group.ranks)}")
    outside = next((rank for rank in group.ranks if rank not in ranks), None)
    if outside is not None:
        raise UsageError(f"rank {outside} of a group is outside the job with {ranks_shown(sorted(ranks))}")
