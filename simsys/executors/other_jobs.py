"""Contention of transfers with other jobs, and between mirrors, mirror by mirror.

A representative process records the transfers of all its ranks together (`Meets`). But other jobs may contend with
some of them only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from simsys.executors.link_classes import Exchange
from simsys.executors.meets import Meets
from simsys.executors.mirrors import shifted
from simsys.executors.uses import FULL, Use

Users = Collection[tuple[int, ...]]
"""Ranks of groups, source and destination of messages."""


def able_to_meet(own: Meets, others: Iterable[Meets]) -> set[tuple[int, ...]]:
    """Users that would lose time to concurrent transfers of other jobs, mirrors by their own ranks.

    Args:
        own: Records of the job.
        others: Records of the other jobs.
    """
    full, loads, found = 0.0 if own.in_turn else FULL, _loads(others), set[tuple[int, ...]]()
    for use in own.uses:
        links = {link for link, need in use.needs.items() if link in loads and need + loads[link] > full}
        for shift, user in use.mirrored() if links else ():
            if not links.isdisjoint(_links(own, use, shift)):
                found.add(user)
    return found


def most_loaded(own: Meets, others: Iterable[Meets]) -> str:
    """The most loaded link shared with other jobs, for people; empty if there is none."""
    loads = _loads(others)
    needs = {link: loads[link] + need for use in own.uses for link, need in use.needs.items() if link in loads}
    return own.network.link_name(max(needs, key=lambda link: needs[link])) if needs else ""


def mirrored(own: Meets, users: Users) -> bool:
    """True if some users are mirrors of others, or of each other."""
    return any(len(use.shifts) > 1 and any(user in users for _, user in use.mirrored()) for use in own.uses)


def sharing_mirrors(own: Meets) -> set[tuple[int, ...]]:
    """Users with mirrors that exceed the bandwidth of a link together."""
    return {user for use in own.uses if _mirrors_share(own, use) for _, user in use.mirrored()}


def exchanges(own: Meets, job: int, carried: Users) -> Iterator[Exchange]:
    """Everything that ranks exchange, mirrors one by one.

    Args:
        own: The transfers of the job.
        job: The number that the job is to have.
        carried: The users on shared links.
    """
    way = own.network.way
    for kind, use in enumerate(own.uses):
        for shift, user in use.mirrored():
            steps = use.steps if user in carried else ()
            ways = [[way(src + shift, dst + shift) for src, dst in pairs] for pairs, _ in steps]
            yield Exchange(job, kind, user, ways)


def _loads(others: Iterable[Meets]) -> dict[int, float]:
    """The largest share of each link's bandwidth that concurrent transfers need, one of each job."""
    loads: dict[int, float] = {}
    for other in others:
        for link, users in other.users.items():
            loads[link] = loads.get(link, 0.0) + max(use.needs[link] for use in users)
    return loads


def _links(own: Meets, use: Use, shift: int) -> Iterable[int]:
    """The links of one mirror, including negligible ones."""
    if len(use.shifts) == 1:
        return use.needs
    ways = [own.network.way(src + shift, dst + shift) for pairs, _ in use.steps for src, dst in pairs]
    return [link for way in ways for hop in way for link, _ in hop]


def _mirrors_share(own: Meets, use: Use) -> bool:
    """Whether the mirrors of transfers are too many for some link."""
    needs: dict[int, float] = {}
    for shift in use.shifts if len(use.shifts) > 1 else ():
        mine, _ = own.needs_of_steps([(shifted(pairs, [shift]), sent) for pairs, sent in use.steps])
        if any(link in needs and (own.in_turn or needs[link] + need > FULL) for link, need in mine.items()):
            return True
        needs |= {link: needs.get(link, 0.0) + need for link, need in mine.items()}
    return False
