"""Simultaneous transfers of equal groups, and their mutual contention.

One process represents all ranks of a role, so a simulated group represents its mirrors, too: equal arrangements of
other ranks of these roles. All of them transfer at equal times. With separate, equal links, all have the time of one.
On shared links, such as the NIC of a node, the time is the time of all transfers together; mirrors with different
shares get out of step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simsys.platform.network import LockStep, Network, Pairs
from simsys.platform.partition import NetworkPartition
from simsys.platform.routing import Way

AnyNetwork = Network[Any, Any] | NetworkPartition

_LARGE_BYTES = 1e15
"""With transfers of this size, latencies do not matter."""
SAME_END = 1e-7
"""Relative difference of the ends of steps up to which mirrors are in lockstep."""


def shifted(pairs: Pairs, shifts: Sequence[int]) -> Pairs:
    """The transfers of some mirrors, each transfer of all of them in turn.

    Args:
        pairs: The transfers of the simulated group.
        shifts: How far apart each mirror's ranks are from the simulated ones.
    """
    if len(shifts) == 1 and shifts[0] == 0:
        return pairs
    return [(src + shift, dst + shift) for src, dst in pairs for shift in shifts]


def interfering(network: AnyNetwork, pairs: Pairs, shifts: Sequence[int]) -> Sequence[int]:
    """Which mirrors matter for the time of some transfers: none but the group itself, or all.

    Args:
        network: Knows the links.
        pairs: The transfers of the simulated group.
        shifts: Its mirrors, itself (0) included.
    """
    if len(shifts) == 1:
        return shifts
    ways = [network.way(*pair) for pair in pairs]
    first = network.node_of(pairs[0][0])
    inside = all(network.node_of(src) == network.node_of(dst) == first for src, dst in pairs)
    users = dict.fromkeys(_links(ways), 0)
    for shift in shifts:
        if not shift or (inside and network.node_of(pairs[0][0] + shift) != first):
            continue  # links inside other nodes are apart, and equal roles are in equal nodes
        theirs = [network.way(src + shift, dst + shift) for src, dst in pairs]
        if not _alike(network, ways, theirs) or _shared(users, theirs, shift):
            return shifts
    return (0,)


def _shared(users: dict[int, int], ways: Sequence[Way], shift: int) -> bool:
    """True if a mirror uses links of others; records it as the user of its links."""
    return any(users.setdefault(link, shift) != shift for link in _links(ways))


def _links(ways: Sequence[Way]) -> Iterator[int]:
    """The links of paths; of a hop that several share, once."""
    hops = {id(hop): hop for way in ways for hop in way}
    return (link for hop in hops.values() for link, _ in hop)


def _alike(network: AnyNetwork, ways: Sequence[Way], others: Sequence[Way]) -> bool:
    """True if paths use links with equal properties and equal sharing as other paths."""
    image: dict[int, int] = {}
    compared: set[tuple[int, int]] = set()
    for way, other in zip(ways, others, strict=True):
        if len(way) != len(other):
            return False
        for hop, their_hop in zip(way, other, strict=True):
            if (pair := (id(hop), id(their_hop))) in compared:
                continue
            compared.add(pair)
            if len(hop) != len(their_hop):
                return False
            for (link, share), (their_link, their_share) in zip(hop, their_hop, strict=True):
                if share != their_share or image.setdefault(link, their_link) != their_link:
                    return False
                if network.figures(link) != network.figures(their_link):
                    return False
    return len(set(image.values())) == len(image)


def in_lockstep(
    network: AnyNetwork, steps: Sequence[LockStep], shifts: Sequence[int], time_s: float
) -> list[Sequence[int]]:
    """Mirrors with equal ends of steps after a common start, as lists of shifts; the simulated group is in the first.

    On FIFO links, no two mirrors that share links have equal ends.

    Args:
        network: The network.
        steps: The steps of the simulated group.
        shifts: Its mirrors, including itself (0).
        time_s: Start time.
    """
    if len(shifts) == 1:
        return [shifts]
    if network.in_turn:  # the first in the queue continues with its next step while the others wait
        return [[shift] for shift in shifts]
    ends: list[tuple[int, ...]] = [()] * len(shifts)
    for pairs, nbytes, _, _ in steps:
        found_s = network.ends_together([shifted(pairs, [shift]) for shift in shifts], nbytes, time_s)
        longest_s = max(found_s)
        ends = [
            (*before, round(end_s / longest_s / SAME_END) if longest_s else 0)
            for before, end_s in zip(ends, found_s, strict=True)
        ]
    classes: dict[tuple[int, ...], list[int]] = {}
    for shift, key in zip(shifts, ends, strict=True):
        classes.setdefault(key, []).append(shift)
    return list(classes.values())


def out_of_step(network: AnyNetwork, steps: Sequence[LockStep], shifts: Sequence[int], time_s: float) -> bool:
    """Whether mirrors slow each other unequally; unequal latencies alone do not matter, since all wait for the last.

    Args:
        network: The network.
        steps: The steps of the simulated group.
        shifts: Its mirrors, including itself (0).
        time_s: Start time.
    """
    sent = [(pairs, _LARGE_BYTES, 1, 0.0) for pairs, nbytes, _, _ in steps if nbytes]
    return len(in_lockstep(network, sent, shifts, time_s)) > 1
