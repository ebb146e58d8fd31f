"""Roles: sets of ranks that behave alike, each with one representative process.

Ranks of one pipeline stage on equal devices do the same work at the same time. If devices differ, a rank is also
delayed by the ranks of its groups, and these by theirs. So ranks are distinguished by device and stage, then by the
ranks of their groups, until nothing changes: the coarsest equitable partition (colour refinement).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simsys.parallel.layout import GROUPS, Group, Layout

Roles = tuple[tuple[int, ...], ...]


def roles_of(layout: Layout, kinds: Sequence[int] = (), runs: Iterable[int] = (), nodes: Sequence[int] = ()) -> Roles:
    """Sets of ranks with equal work at equal times; the first rank of each represents it.

    Args:
        layout: The arrangement of all ranks.
        kinds: For each rank, a number that is equal for equal devices; empty if all are equal.
        runs: Sizes of runs of ``data`` ranks that communicate among themselves (`Layout.split`).
        nodes: The node of each rank, if groups along one axis lie differently on nodes; none if all lie alike.

    Returns:
        One role per pipeline stage if all devices are equal; every rank alone if representatives would not be in each
        other's groups.
    """
    surroundings = list(zip(kinds or [0] * layout.world_size, _places(layout, nodes), strict=True))
    if len(set(surroundings)) < 2:
        return layout.roles()
    groups = _groups(layout, runs)
    stages = [layout.coordinates(rank)["pipeline"] for rank in range(layout.world_size)]
    colours = _refined(list(zip(stages, surroundings, strict=True)), groups)
    roles = _led(_members(colours), groups)
    return roles if roles is not None else alone(layout)


def alone(layout: Layout) -> Roles:
    """Every rank for itself."""
    return tuple((rank,) for rank in range(layout.world_size))


def one_group(layout: Layout, runs: Iterable[int] = ()) -> bool:
    """Whether no ranks communicate among themselves but all together; arguments as for `roles_of`."""
    size = layout.world_size
    divided = layout.context > 1 or layout.expert > 1 or any(1 < run < size for run in runs)
    return layout.replicas == size and not divided


def varied_roles(layout: Layout, kinds: Sequence[int] = (), runs: Iterable[int] = ()) -> Roles:
    """Roles of ranks with random computation times; arguments as for `roles_of`.

    If all ranks have equal work and only collectives of all ranks, the slowest of each kind of device represents it,
    since a collective begins when the slowest rank is ready. Rank 0, which is observed, represents itself. Otherwise
    every rank is simulated.
    """
    if not one_group(layout, runs):
        return alone(layout)
    size = layout.world_size
    others = _members(numbered([kinds[rank] if kinds else 0 for rank in range(1, size)])) if size > 1 else []
    return ((0,), *(tuple(rank + 1 for rank in ranks) for ranks in others))


def _places(layout: Layout, nodes: Sequence[int]) -> list[object]:
    """For each rank, how its groups lie on nodes: which of their members share one."""
    if not nodes:
        return [None] * layout.world_size
    lie: dict[Group, tuple[int, ...]] = {}
    for rank in range(layout.world_size):
        for over in GROUPS:
            group = layout.group(rank, over)
            if group not in lie:
                lie[group] = tuple(numbered([nodes[member] for member in group.ranks]))
    return [tuple(lie[layout.group(rank, over)] for over in GROUPS) for rank in range(layout.world_size)]


def _groups(layout: Layout, runs: Iterable[int]) -> list[list[Group]]:
    """For each rank, the groups in which it waits for other ranks."""
    sizes = [size for size in runs if 1 < size < layout.replicas]
    found = []
    for rank in range(layout.world_size):
        own = [layout.group(rank, over) for over in GROUPS]
        own += [part for size in sizes for part in layout.split(rank, "data", size)]
        found.append([group for group in own if group.size > 1])
    return found


def _refined(colours: Sequence[object], groups: Sequence[Sequence[Group]]) -> list[int]:
    """Refine the roles of ranks by their groups until nothing changes."""
    numbers = numbered(colours)
    while True:
        seen: dict[Group, tuple[int, ...]] = {}
        for own in groups:
            for group in own:
                if group not in seen:  # in their order, as it may matter where on the links a group lies
                    seen[group] = tuple(numbers[rank] for rank in group.ranks)
        refined = numbered(
            [(number, *(seen[group] for group in own)) for number, own in zip(numbers, groups, strict=True)]
        )
        if max(refined) == max(numbers):
            return refined
        numbers = refined


def numbered(values: Sequence[object]) -> list[int]:
    """Equal values as equal numbers from 0, in order of appearance."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _members(colours: Sequence[int]) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(max(colours) + 1)]
    for rank, colour in enumerate(colours):
        members[colour].append(rank)
    return members


def _led(members: Sequence[Sequence[int]], groups: Sequence[Sequence[Group]]) -> Roles | None:
    """The roles with leaders that are in each other's groups; None if there is no such choice.

    A collective of a leader's group is complete when the leaders of all its members have joined, so these must be
    members too.
    """
    colour_of = {rank: colour for colour, ranks in enumerate(members) for rank in ranks}
    leaders = {0: members[0][0]}
    pending = [0]
    while pending:
        for group in groups[leaders[pending.pop()]]:
            for rank in group.ranks:
                if colour_of[rank] not in leaders:
                    leaders[colour_of[rank]] = rank
                    pending.append(colour_of[rank])
    for colour, ranks in enumerate(members):
        leader = leaders.setdefault(colour, ranks[0])
        for group in groups[leader]:
            ranks_of = set(group.ranks)
            if any(leaders.get(colour_of[rank], -1) not in ranks_of for rank in group.ranks):
                return None
    return tuple((leaders[c], *(rank for rank in ranks if rank != leaders[c])) for c, ranks in enumerate(members))
