"""Which of the free GPUs a job gets, in the order of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator as Random

Free = Mapping[int, Sequence[int]]
"""For every node with free GPUs their numbers, in order."""

Placement = Callable[[Free, int, "Random"], tuple[int, ...]]
"""Selects a number of GPUs from the free ones, of which there are enough."""


def packed(free: Free, count: int, rng: Random) -> tuple[int, ...]:
    """As few nodes as possible: the node that it fills best if one will do, else the emptiest nodes, by number."""
    enough = [node for node, gpus in free.items() if len(gpus) >= count]
    if enough:
        return tuple(free[min(enough, key=lambda node: (len(free[node]), node))][:count])
    most = sorted(free, key=lambda node: (-len(free[node]), node))
    chosen, left = list[int](), count
    for node in most:
        if not left:
            break
        chosen.append(node)
        left -= min(left, len(free[node]))
    return tuple([gpu for node in sorted(chosen) for gpu in free[node]][:count])


def spread(free: Free, count: int, rng: Random) -> tuple[int, ...]:
    """As many nodes as possible: one GPU of each in turn, those with most of them first; ranks go node by node."""
    order = sorted(free, key=lambda node: (-len(free[node]), node))
    taken = dict.fromkeys(order, 0)
    left = count
    while left:
        for node in order:
            if left and taken[node] < len(free[node]):
                taken[node] += 1
                left -= 1
    return tuple(gpu for node in sorted(taken) for gpu in free[node][: taken[node]])


def scattered(free: Free, count: int, rng: Random) -> tuple[int, ...]:
    """Any, all equally likely; ranks go by number."""
    gpus = sorted(gpu for each in free.values() for gpu in each)
    return tuple(sorted(int(gpu) for gpu in rng.choice(gpus, size=count, replace=False)))


PLACEMENTS: Mapping[str, Placement] = {"packed": packed, "spread": spread, "random": scattered}
"""Placements, named as in an experiment file."""
