"""Sets of flows that share links, among those sent so far."""

from __future__ import annotations

from simsys.platform.flow_set import FlowSet, Stream

FEW = 32
"""Number of sets with streams up to which those that share links are kept by combination."""
MOST_KEPT = 1 << 14
"""Number of combinations that are kept."""


class Neighbours:
    """Introduces sets of flows to each other when they are sent for the first time."""

    def __init__(self) -> None:
        self._users: dict[int, list[FlowSet]] = {}  # by link
        self._busy: dict[FlowSet, None] = {}
        self._together: dict[tuple[FlowSet, ...], list[FlowSet]] = {}  # by a set, and those with streams

    def using(self, link: int) -> list[FlowSet]:
        """Whole sets that use a link, by its number, and have been sent."""
        return self._users.get(link, [])

    def introduce(self, whole: FlowSet) -> None:
        """Register a whole set before it is sent for the first time, with all sets that share links with it."""
        whole.known = True
        near: dict[FlowSet, None] = {}
        for link in whole.links:
            users = self._users.setdefault(link, [])
            near |= dict.fromkeys(users)
            users.append(whole)
        whole.near = {other: place for place, other in enumerate(near)}
        for other in near:
            other.near[whole] = len(other.near)

    def sent(self, whole: FlowSet) -> None:
        """A whole set has streams from now on."""
        self._busy[whole] = None

    def ended(self, whole: FlowSet) -> None:
        """A whole set has no streams any more."""
        del self._busy[whole]

    def busy_near(self, whole: FlowSet) -> list[FlowSet]:
        """The sets with streams that share links with a whole set, in the order in which they met."""
        near, busy = whole.near, self._busy
        if len(near) <= len(busy):
            return [other for other in near if other in busy]
        found = [other for other in busy if other in near]
        if len(found) > 1:
            found.sort(key=near.__getitem__)
        return found

    def together(self, whole: FlowSet, seen: set[FlowSet]) -> list[Stream]:
        """All streams that share links with a set, directly or through other sets; all these sets become `seen`."""
        sets = self._component(whole)
        seen.update(sets)
        return [stream for one in sets for stream in one.streams]

    def _component(self, whole: FlowSet) -> list[FlowSet]:
        """The sets with streams that share links with a set, directly or through other sets, itself first."""
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
        found = {whole: None}
        pending = [whole]
        for one in pending:  # which grows meanwhile
            for other in self.busy_near(one):
                if other not in found:
                    found[other] = None
                    pending.append(other)
        return pending
