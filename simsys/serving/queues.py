"""Queues of waiting requests: a `collections.deque` for first come, first served; others with their own order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeVar

Wants = TypeVar("Wants", bound=Callable[..., bool])


def of_first_only(wants: Wants) -> Wants:
    """Mark a `Scheduler.wants` that refuses every waiting request except the first.

    Routers with one queue do not call it for other requests.
    """
    wants.of_first_only = True  # type: ignore[attr-defined]
    return wants


class Queue(Protocol):
    """Requests that wait, the next one first; the part of a deque that schedulers use."""

    def append(self, request: int, /) -> None:
        """A request has arrived."""

    def appendleft(self, request: int, /) -> None:
        """A request comes back, as it was preempted."""

    def popleft(self) -> int:
        """Remove and return the first request."""

    def remove(self, request: int, /) -> None:
        """Remove a request at any place."""

    def __getitem__(self, place: Any, /) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...

    def __contains__(self, request: object, /) -> bool: ...


class OrderedQueue:
    """The request with the smallest key comes next; of equal ones, the one with the smallest number.

    Args:
        key: What to order by; asked once, when a request comes in.
    """

    def __init__(self, key: Callable[[int], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, int]] = []

    def append(self, request: int) -> None:
        """A request has arrived."""
        heappush(self._heap, (self._key(request), request))

    appendleft = append

    def popleft(self) -> int:
        """Remove and return the first request."""
        return heappop(self._heap)[1]

    def remove(self, request: int) -> None:
        """Remove a request at any place."""
        self._heap = [entry for entry in self._heap if entry[1] != request]
        heapify(self._heap)

    def __getitem__(self, place: int) -> int:
        return self._heap[0][1] if place == 0 else sorted(self._heap)[place][1]

    def __iter__(self) -> Iterator[int]:
        return (request for _, request in sorted(self._heap))

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, request: object) -> bool:
        return any(entry[1] == request for entry in self._heap)


class SharedQueue:
    """One queue for several replicas.

    Args:
        queue: The ordered queue.
        tell: Called with every added request.
    """

    def __init__(self, queue: Queue, tell: Callable[[int], None]) -> None:
        self._queue = queue
        self.tell = tell

    def append(self, request: int) -> None:
        """A request has arrived."""
        self._queue.append(request)
        self.tell(request)

    def appendleft(self, request: int) -> None:
        """A request comes back."""
        self._queue.appendleft(request)
        self.tell(request)

    def popleft(self) -> int:
        """Remove and return the first request."""
        return self._queue.popleft()

    def remove(self, request: int) -> None:
        """Remove a request at any place."""
        self._queue.remove(request)

    def __getitem__(self, place: Any) -> int:
        return self._queue[place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, request: object) -> bool:
        return request in self._queue
