"""Links that serve first come, first served, on a calendar, and the hops that transfers pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from simsys.platform.link import Link
from simsys.platform.link_spec import LinkSpec
from simsys.platform.turns import TurnServer

Entered = Callable[[float, float], None]
"""Called, once both are known, with the times when the head reaches the next hop and when the tail arrives there."""


class Holder(Protocol):
    """A holder of links until another transfer comes."""

    def give_way(self) -> None:
        """Release them, in their state at this moment."""


class Hop(Protocol):
    """One stage of a route: a link, or parallel links among which a transfer is divided."""

    expected: int
    """Transfers that are on their way to it."""

    @property
    @abstractmethod
    def members(self) -> Sequence[CalendarLink]:
        """The links of the hop."""

    @property
    @abstractmethod
    def turns(self) -> object:
        """True, or not empty, while a process has requested one of its links, so that transfers queue."""

    @abstractmethod
    def enter_in_turn(self, head_s: float, tail_s: float, nbytes: float, entered: Entered) -> None:
        """As `enter`, after earlier requests; calls `entered` with the result."""

    @abstractmethod
    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """Reserve it for a transfer with the head here at `head_s` and the tail at `tail_s`.

        Returns:
            The times when the head and the tail reach the far end.
        """

    @abstractmethod
    def of(self, copies: Mapping[CalendarLink, CalendarLink]) -> Hop:
        """A copy of the hop with copies of its links."""


class CalendarLink(TurnServer, Link):
    """A link with a calendar, reserved when a transfer reaches it. SimPy processes can request it."""

    def __init__(self, spec: LinkSpec) -> None:
        TurnServer.__init__(self)
        Link.__init__(self, spec)
        self.expected = 0
        """Transfers that are on their way to this link."""
        self.bundles: list[Parallel] = []
        """The groups of parallel links that contain it."""
        self.holder: Holder | None = None

    @property
    def members(self) -> Sequence[CalendarLink]:
        """The link itself, as its only one."""
        return (self,)

    @property
    def awaited(self) -> bool:
        """Whether a transfer is on its way to this link."""
        return self.expected > 0 or any(bundle.expected for bundle in self.bundles)

    def _settle(self) -> None:
        """Materialise an uncontended collective on the link: it continues step by step."""
        if self.holder is not None:
            self.holder.give_way()

    def enter_in_turn(self, head_s: float, tail_s: float, nbytes: float, entered: Entered) -> None:
        """Reserve the link in turn, as `Hop.enter_in_turn`."""
        self.queue(lambda: entered(*self.enter(head_s, tail_s, nbytes)))

    def of(self, copies: Mapping[CalendarLink, CalendarLink]) -> Hop:
        """A copy of the link as a hop."""
        return copies[self]

    @abstractmethod
    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """Reserve the link, as `Hop.enter`."""


class CutThroughLink(CalendarLink):
    """Passes the head of a transfer on at once, and the tail not before it has come in."""

    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """The head is at the far end one latency after it got its turn."""
        start = self.free_at_s
        if start < head_s:
            start = head_s
        else:
            self.queued_s += start - head_s
        if self.timeline is not None:
            self.renew(start)
        serialised_s = nbytes / self.bytes_per_s
        self.free_at_s = finish = start + serialised_s
        self.busy_s += serialised_s
        if finish < tail_s:  # a slower link upstream starves this transfer; the link serves other transfers meanwhile
            finish = tail_s
        self.nbytes += nbytes
        return start + self.latency_s, finish + self.latency_s


class StoreAndForwardLink(CalendarLink):
    """Passes a transfer on when it has been serialised as a whole."""

    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """Head and tail are at the far end together."""
        start = self.free_at_s
        if start < tail_s:
            start = tail_s
        else:
            self.queued_s += start - tail_s
        if self.timeline is not None:
            self.renew(start)
        serialised_s = nbytes / self.bytes_per_s
        self.free_at_s = finish = start + serialised_s
        self.busy_s += serialised_s
        self.nbytes += nbytes
        arrived_s = finish + self.latency_s
        return arrived_s, arrived_s


class Parallel:
    """Parallel links among which transfers are divided by fixed shares, packet by packet.

    Args:
        parts: The links and their shares.
    """

    def __init__(self, parts: Sequence[tuple[CalendarLink, float]]) -> None:
        self._parts = parts
        self.members = [link for link, _ in parts]
        self.expected = 0
        for link in self.members:
            link.bundles.append(self)

    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """Reserve every link for its share; the slowest one decides when head and tail are at the far end."""
        ends = [link.enter(head_s, tail_s, nbytes * share) for link, share in self._parts]
        return max([head for head, _ in ends]), max([tail for _, tail in ends])

    @property
    def turns(self) -> bool:
        """The turns of the links, as `Hop.turns`."""
        return any(link.turns for link in self.members)

    def enter_in_turn(self, head_s: float, tail_s: float, nbytes: float, entered: Entered) -> None:
        """As `Hop.enter_in_turn`: each link carries its share in its own turn."""
        ends: list[tuple[float, float]] = []

        def one_entered(*end: float) -> None:
            ends.append((end[0], end[1]))
            if len(ends) == len(self._parts):
                entered(max([head for head, _ in ends]), max([tail for _, tail in ends]))

        for link, share in self._parts:
            link.enter_in_turn(head_s, tail_s, nbytes * share, one_entered)

    def of(self, copies: Mapping[CalendarLink, CalendarLink]) -> Parallel:
        """A copy of the hop with equal shares."""
        return Parallel([(copies[link], share) for link, share in self._parts])


Route = Sequence[Hop]
"""The hops of a transfer, in order."""
