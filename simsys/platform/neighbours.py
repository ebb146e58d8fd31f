"""Sets of flows that share links, among those sent so far."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from simsys.platform.flow_set import FlowSet, Stream

FEW = 8
"""Number of sets with streams up to which those that share links are kept by combination."""
MOST_KEPT = 1 << 10
"""Number of combinations that are kept."""


class _Alike:
    """Links that the same sets use, so that these are looked at once.

    Args:
        users: The sets, in the order in which they were sent.
        count: Number of links; infinite for those that no set uses.
    """

    __slots__ = ("count", "users")

    def __init__(self, users: list[FlowSet], count: float) -> None:
        self.users, self.count = users, count


class Neighbours:
    """Introduces sets of flows to each other when they are sent for the first time."""

    def __init__(self) -> None:
        self._alike: dict[int, _Alike] = {}  # by link
        self._unused = _Alike([], inf)
        self._busy: dict[FlowSet, None] = {}
        self._together: dict[tuple[FlowSet, ...], list[FlowSet]] = {}  # by a set, and those with streams

    def using(self, links: Iterable[int]) -> list[FlowSet]:
        """Whole sets that use any of these links, by their numbers, and have been sent; the first link's first."""
        kinds = dict.fromkeys(self._alike[link] for link in links if link in self._alike)
        return list(dict.fromkeys(user for kind in kinds for user in kind.users))

    def introduce(self, whole: FlowSet) -> None:
        """Register a whole set before it is sent for the first time, with all sets that share links with it."""
        whole.known = True
        alike, unused = self._alike, self._unused
        kinds: dict[_Alike, list[int]] = {}
        for link in whole.links:
            kinds.setdefault(alike.get(link, unused), []).append(link)
        near = dict.fromkeys([user for kind in kinds for user in kind.users])
        for kind, links in kinds.items():
            if len(links) < kind.count:  # its other links are not used by this set
                kind.count -= len(links)
                kind = _Alike(kind.users.copy(), len(links))
                alike |= dict.fromkeys(links, kind)
            kind.users.append(whole)
        whole.near = dict(zip(near, range(len(near)), strict=True))
        for other in near:
            met = other.near
            met[whole] = len(met)

    def sent(self, whole: FlowSet) -> None:
        """A whole set has streams from now on."""
        self._busy[whole] = None

    def ended(self, whole: FlowSet) -> None:
        """A whole set has no streams any more."""
        del self._busy[whole]

    def busy_near(self, whole: FlowSet) -> list[FlowSet]:
        """The sets with streams that share links with a whole set, in the order in which they met."""
        near = whole.near
        found = near.keys() & self._busy.keys()
        return sorted(found, key=near.__getitem__) if len(found) > 1 else list(found)

    def together(self, whole: FlowSet, seen: set[FlowSet]) -> list[Stream]:
        """All streams that share links with a set, directly or through other sets; all these sets become `seen`."""
        sets = self._component(whole)
        seen.update(sets)
        return [stream for one in sets for stream in one.streams]

    def _component(self, whole: FlowSet) -> list[FlowSet]:
        """The sets with streams that share links with a set, directly or through other sets, itself first."""
        near = self.busy_near(whole)
        if not near or len(near) + 1 == len(self._busy):
            return [whole, *near]
        if len(self._busy) > FEW:
            return self._find_component(whole)
        key = whole, *self._busy
        found = self._together.get(key)
        if found is None:
            if len(self._together) >= MOST_KEPT:
                self._together.clear()
            found = self._together[key] = self._find_component(whole)
        return found

    def _find_component(self, whole: FlowSet) -> list[FlowSet]:
        found, pending, all_busy = {whole}, [whole], len(self._busy)
        for one in pending:  # which grows meanwhile
            if len(pending) == all_busy:
                break
            for other in self.busy_near(one):
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return pending
