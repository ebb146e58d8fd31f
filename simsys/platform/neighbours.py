"""Sets of flows that share links, among those sent so far."""

from __future__ import annotations

from simsys.platform.flow_set import FlowSet, Stream


class Neighbours:
    """Introduces sets of flows to each other when they are sent for the first time."""

    def __init__(self) -> None:
        self._users: dict[int, list[FlowSet]] = {}  # by link
        self._busy: dict[FlowSet, None] = {}

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
        seen.add(whole)
        pending, found = [whole], list[Stream]()
        for one in pending:  # which grows meanwhile
            found += one.streams
            for other in self.busy_near(one):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return found
