"""Order of tasks: within a rank, and of all ranks together without times, which finds every wait that never ends."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from simsys.chakra.tasks import Dispatch, Join, RankTasks, Receipt, Stream, stream_of
from simsys.errors import TraceError
from simsys.parallel.layout import Group

MOST_SHOWN = 6
"""Nodes that a message names."""


def keep_streams_in_order(rank: RankTasks) -> None:
    """Let each collective of a group, and each copy of a channel, begin after the one before it has begun.

    Their order is the order of the file, except where dependencies contradict it. They run one after another, so a
    dependency on the one before says no more.

    Raises:
        TraceError: If nodes of the rank depend on each other in a circle.
    """
    latest: dict[Stream, int] = {}
    for index in _in_order(rank):
        stream = stream_of(rank.tasks[index].action)
        if stream is not None:
            if stream in latest:
                task = rank.tasks[index]
                task.needs.discard(latest[stream])
                task.follows = latest[stream]
            latest[stream] = index


def dependents(rank: RankTasks) -> list[list[int]]:
    """For each task, the tasks that come after it, in the order of the file."""
    return _lists(task.before for task in rank.tasks)


def awaiting(rank: RankTasks) -> list[list[int]]:
    """For each task, the tasks that wait for its end, in the order of the file."""
    return _lists(task.needs for task in rank.tasks)


def followers(rank: RankTasks) -> list[list[int]]:
    """For each task, the tasks that wait for its beginning."""
    return _lists(() if task.follows is None else (task.follows,) for task in rank.tasks)


def _lists(befores: Iterable[Iterable[int]]) -> list[list[int]]:
    """For each place, the places that have it before them."""
    listed = list(befores)
    found: list[list[int]] = [[] for _ in listed]
    for index, before in enumerate(listed):
        for each in before:
            found[each].append(index)
    return found


def _in_order(rank: RankTasks) -> Iterator[int]:
    """The tasks in an order that keeps all dependencies, otherwise that of the file."""
    waiting = [len(task.before) for task in rank.tasks]
    after = dependents(rank)
    ready = [index for index, count in enumerate(waiting) if not count]
    heapify(ready)
    left = len(waiting)
    while ready:
        index = heappop(ready)
        left -= 1
        yield index
        for each in after[index]:
            waiting[each] -= 1
            if not waiting[each]:
                heappush(ready, each)
    if left:
        raise TraceError(_circle(rank, {index for index, count in enumerate(waiting) if count}))


def _circle(rank: RankTasks, stuck: set[int]) -> str:
    """Describe a circle among tasks that each wait for another one of them."""
    index, path = min(stuck), list[int]()
    while index not in path:
        path.append(index)
        index = min(rank.tasks[index].before & stuck)
    circle = [*path[path.index(index) :], index]
    shown = " needs ".join(str(rank.tasks[each].node.id) for each in circle[: MOST_SHOWN + 1])
    return f"{rank.place(circle[0])}: nodes depend on each other in a circle: {shown}"


def check_matching(ranks: Sequence[RankTasks]) -> None:
    """Check whether every message and every collective has all its partners, and no wait is endless.

    Raises:
        TraceError: With the nodes that wait for partners, or that have other ones than they expect.
    """
    _check_messages(ranks)
    _check_collectives(ranks)
    stuck = _Untimed(ranks).stuck()
    if stuck:
        places = "\n  ".join(ranks[rank].place(index) for rank, index in stuck[:MOST_SHOWN])
        more = f"\n  … and {len(stuck) - MOST_SHOWN} more" if len(stuck) > MOST_SHOWN else ""
        raise TraceError(f"nodes of several ranks wait for each other:\n  {places}{more}")


def _check_messages(ranks: Sequence[RankTasks]) -> None:
    """Every message is sent as often as it is received."""
    sent, received = (defaultdict[tuple[int, int, int], list[str]](list) for _ in range(2))
    for number, rank in enumerate(ranks):
        for index, task in enumerate(rank.tasks):
            action = task.action
            if isinstance(action, Dispatch):
                sent[number, action.dst, action.tag].append(rank.place(index))
            elif isinstance(action, Receipt):
                received[action.src, number, action.tag].append(rank.place(index))
    for src, dst, tag in sorted({*sent, *received}):
        ours, theirs = sent[src, dst, tag], received[src, dst, tag]
        if len(ours) != len(theirs):
            place = (ours if len(ours) > len(theirs) else theirs)[min(len(ours), len(theirs))]
            counts = f"rank {src} sends {len(ours)} and rank {dst} receives {len(theirs)}"
            raise TraceError(f"{place}: it has no partner: with tag {tag}, {counts}")


def _check_collectives(ranks: Sequence[RankTasks]) -> None:
    """The members of a group call the same collectives in the same order."""
    called: dict[Group, dict[int, list[int]]] = {}
    for number, rank in enumerate(ranks):
        for index in _in_order(rank):
            action = rank.tasks[index].action
            if isinstance(action, Join):
                called.setdefault(action.group, {}).setdefault(number, []).append(index)
    for group, calls in called.items():
        first = next(iter(calls))
        for member in group.ranks:
            if member >= len(ranks):
                raise TraceError(f"{ranks[first].place(calls[first][0])}: there is no trace of rank {member}")
            _check_same(ranks, first, calls[first], member, calls.get(member, []))


def _check_same(ranks: Sequence[RankTasks], first: int, ours: list[int], member: int, theirs: list[int]) -> None:
    for one, other in zip(ours, theirs, strict=False):
        mine, yours = ranks[first].tasks[one].action, ranks[member].tasks[other].action
        assert isinstance(mine, Join)
        assert isinstance(yours, Join)
        if (mine.kind, mine.nbytes) != (yours.kind, yours.nbytes):
            what = f"{yours.kind} of {yours.nbytes:.0f} bytes"
            meets = f"{ranks[first].place(one)}, a {mine.kind} of {mine.nbytes:.0f} bytes"
            raise TraceError(f"{ranks[member].place(other)}: this {what} meets {meets}")
    if len(ours) != len(theirs):
        longer, place = (first, ours) if len(ours) > len(theirs) else (member, theirs)
        shorter = member if longer == first else first
        at = ranks[longer].place(place[min(len(ours), len(theirs))])
        raise TraceError(f"{at}: rank {shorter} of its process group never joins this collective")


class _Untimed:
    """All tasks without durations.

    Args:
        ranks: The tasks of each rank.
    """

    def __init__(self, ranks: Sequence[RankTasks]) -> None:
        self._ranks = ranks
        self._waiting = [[len(task.before) for task in rank.tasks] for rank in ranks]
        self._after = [dependents(rank) for rank in ranks]
        self._ready = deque(
            (number, index)
            for number, rank in enumerate(ranks)
            for index, task in enumerate(rank.tasks)
            if not task.before
        )
        self._ended = [[False] * len(counts) for counts in self._waiting]
        self._joined: dict[Group, list[tuple[int, int]]] = {}
        self._mail: dict[tuple[int, int, int], deque[tuple[int, int] | None]] = {}

    def stuck(self) -> list[tuple[int, int]]:
        """Ranks and places of the tasks that could begin but never end."""
        while self._ready:
            self._begin(*self._ready.popleft())
        return [
            (rank, index)
            for rank, counts in enumerate(self._waiting)
            for index, count in enumerate(counts)
            if not count and not self._ended[rank][index]
        ]

    def _begin(self, rank: int, index: int) -> None:
        action = self._ranks[rank].tasks[index].action
        if isinstance(action, Join):
            joined = self._joined.setdefault(action.group, [])
            joined.append((rank, index))
            if len(joined) == action.group.size:
                del self._joined[action.group]
                for each in joined:
                    self._end(*each)
        elif isinstance(action, Dispatch):
            self._end(rank, index)
            self._deliver((rank, action.dst, action.tag), None)
        elif isinstance(action, Receipt):
            self._deliver((action.src, rank, action.tag), (rank, index))
        else:
            self._end(rank, index)

    def _deliver(self, address: tuple[int, int, int], receipt: tuple[int, int] | None) -> None:
        """A message (None) or the wait for one has begun; end the wait of a pair."""
        queue = self._mail.setdefault(address, deque())
        if queue and (queue[0] is None) != (receipt is None):
            waiting = queue.popleft() or receipt
            assert waiting is not None
            self._end(*waiting)
        else:
            queue.append(receipt)

    def _end(self, rank: int, index: int) -> None:
        self._ended[rank][index] = True
        for each in self._after[rank][index]:
            self._waiting[rank][each] -= 1
            if not self._waiting[rank][each]:
                self._ready.append((rank, each))
