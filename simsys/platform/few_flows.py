"""The rates of few flows by progressive filling in lists, since each call of NumPy costs as much as several flows.

The rounds are those of `simsys.platform.max_min`, with the same additions in the same order, so rates are equal to the
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf

import numpy as np

from simsys.platform.hop_units import Floats, Indexes
from simsys.platform.routing import Way

FEW = 128
"""Links of all flows, each as often as it is used, up to which lists are faster than arrays."""
ROUNDINGS = 1e-12
"""Rates that differ by no more, relatively, are the same."""

Uses = Sequence[Sequence[tuple[int, float]]]
"""For each flow its links, each with its share of the bytes."""


def few_uses(ways: Sequence[Way]) -> Uses | None:
    """The links of each flow, by the path of each; None if these are many."""
    if len(ways) > FEW or sum([len(hop) for way in ways for hop in way]) > FEW:
        return None
    return [tuple(chain.from_iterable(way)) for way in ways]


def few_together(sets: Sequence[Uses | None]) -> Uses | None:
    """The links of the flows of several sets, one after another; None if these are many."""
    together: list[Sequence[tuple[int, float]]] = []
    for uses in sets:
        if uses is None or len(together) > FEW:
            return None
        together += uses
    return together if sum(map(len, together)) <= FEW else None


def filled_few(uses: Uses, bytes_per_s: Floats) -> tuple[list[float], Indexes]:
    """The rate of each flow, and the link that decides it: of links that are full at once, the flow's last.

    Args:
        uses: The links of each flow.
        bytes_per_s: The bandwidth of every link of the network.
    """
    bandwidth, level = bytes_per_s.item, 0.0
    left = {link: bandwidth(link) for use in uses for link, _ in use}
    rates, limits = [0.0] * len(uses), [0] * len(uses)
    growing = [(flow, use) for flow, use in enumerate(uses) if use]
    while growing:
        levels = {link: left[link] / share if share > 0.0 else inf for link, share in _wanted(growing).items()}
        level = max(level, min(levels.values()))
        at_most, stopped, going_on = level * (1.0 + ROUNDINGS), [], []
        for each in growing:
            flow, use = each
            full = [link for link, _ in use if levels[link] <= at_most]
            if full:
                rates[flow], limits[flow] = level, full[-1]
                stopped.append(each)
            else:
                going_on.append(each)
        if going_on:
            for link, share in _wanted(stopped).items():
                left[link] -= level * share
        growing = going_on
    return rates, np.array(limits, dtype=np.intp)


def _wanted(flows: Sequence[tuple[int, Sequence[tuple[int, float]]]]) -> dict[int, float]:
    """What some flows need of each link, per unit of their rates."""
    wanted: dict[int, float] = {}
    for _, use in flows:
        for link, share in use:
            wanted[link] = wanted.get(link, 0.0) + share
    return wanted
