"""Messages between ranks: a send and the matching receive share an event, whichever comes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping

from simpy.events import Event

from simsys.errors import UsageError
from simsys.platform.environment import Environment

Address = tuple[int, int, Hashable]
"""Source, destination and tag."""


class Mail:
    """Matches messages in order.

    Args:
        env: The environment.
        representative: For each rank, the one that runs a process for it.
    """

    def __init__(self, env: Environment, representative: Mapping[int, int]) -> None:
        self._env, self._representative = env, representative
        self._unmatched: dict[tuple[Address, bool], deque[Event]] = {}

    def event(self, src: int, dst: int, tag: Hashable, *, receiving: bool) -> Event:
        """The event of the next message, from one of its sides.

        Raises:
            UsageError: If there is no such rank.
        """
        try:
            address = self._representative[src], self._representative[dst], tag
        except KeyError as error:
            raise UsageError(f"a message from rank {src} to rank {dst}: there is no rank {error}") from None
        other_side = self._unmatched.get((address, not receiving))
        if other_side:
            return other_side.popleft()
        event = Event(self._env)
        self._unmatched.setdefault((address, receiving), deque()).append(event)
        return event

    @property
    def open(self) -> bool:
        """Whether a message lacks its send or its receive."""
        return any(self._unmatched.values())

    def awaited(self) -> Iterator[Address]:
        """Awaited messages that were never sent."""
        return (address for (address, receiving), events in self._unmatched.items() if receiving and events)
