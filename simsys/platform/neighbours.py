"""Sets of flows that share links, among those sent so far."""

from __future__ import annotations

from simsys.platform.flow_set import FlowSet, Stream


class Neighbours:
    """Introduces sets of flows to each other when they are sent for the first time."""

    def __init__(self) -> None:
        self._users: dict[int, list[FlowSet]] = {}  # by link

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
        whole.near = list(near)
        for other in near:
            other.near.append(whole)


def together(whole: FlowSet, seen: set[FlowSet]) -> list[Stream]:
    """All streams that share links with those of a whole set, directly or through others, whose sets become `seen`."""
    seen.add(whole)
    pending, found = [whole], list[Stream]()
    for one in pending:  # which grows meanwhile
        found += one.streams
        for other in one.near:
            if other.streams and other not in seen:
                seen.add(other)
                pending.append(other)
    return found
