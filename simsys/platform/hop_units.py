"""The hops of flows, each distinct one once: thousands of flows that spread over the same links share a hop."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from simsys.platform.routing import Hop, Way

Indexes = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


class HopUnits:
    """The distinct hops of some flows, and which flow uses which.

    Args:
        ways: The path of each flow.
    """

    __slots__ = ("first", "flow_of", "keys", "links", "shares", "sizes", "unit_of")

    def __init__(self, ways: Sequence[Way]) -> None:
        numbers: dict[Hashable, int] = {}
        hops = [hop for way in ways for hop in way]
        keys: list[Hashable] = [id(hop) if len(hop) > 1 else hop[0] for hop in hops]
        units = [numbers.setdefault(key, len(numbers)) for key in keys]
        by_key = dict(zip(keys, hops, strict=True))
        self.flow_of: Indexes = np.repeat(np.arange(len(ways)), [len(way) for way in ways])
        """The flow of each use of a hop."""
        self.unit_of: Indexes = np.array(units, dtype=np.intp)
        """The hop of each use."""
        self.keys: Sequence[Hashable] = tuple(numbers)
        """What distinguishes each hop: its only link and share, or the identity of the object, which ways hold."""
        parts = [by_key[key] for key in self.keys]
        self.sizes: Indexes = np.array([len(hop) for hop in parts], dtype=np.intp)
        """The number of links of each hop."""
        self.first: Indexes = np.concatenate([[0], np.cumsum(self.sizes)])
        """Where the links of each hop begin, and where they end."""
        found = np.array(list(chain.from_iterable(chain.from_iterable(parts))), dtype=np.float64).reshape(-1, 2)
        self.links: Indexes = found[:, 0].astype(np.intp)
        """The links of all hops, hop by hop."""
        self.shares: Floats = found[:, 1].copy()
        """The share of the bytes of a flow on each."""

    def entries(self) -> tuple[Indexes, Indexes, Floats]:
        """The flow, the link and the share of every link that a flow uses."""
        places, flow_of = spread(self.first, self.sizes, self.unit_of, self.flow_of)
        return flow_of, self.links[places], self.shares[places]


def loads(ways: Sequence[Way]) -> tuple[Indexes, Floats]:
    """Each link of some flows in order of its number, and what it carries for a byte of each flow."""
    times: dict[Hashable, int] = {}
    by_key: dict[Hashable, Hop] = {}
    for way in ways:
        for hop in way:
            key: Hashable = id(hop) if len(hop) > 1 else hop[0]
            times[key] = times.get(key, 0) + 1
            by_key[key] = hop
    carried: dict[int, float] = {}
    for key, hop in by_key.items():
        for link, share in hop:
            carried[link] = carried.get(link, 0.0) + share * times[key]
    links = sorted(carried)
    return np.array(links, dtype=np.intp), np.array([carried[link] for link in links], dtype=np.float64)


def spread(first: Indexes, sizes: Indexes, unit_of: Indexes, flow_of: Indexes) -> tuple[Indexes, Indexes]:
    """The places of the links of every use of a hop, in order, and the flow of each.

    Args:
        first: Where the links of each hop begin.
        sizes: How many of them count.
        unit_of: The hop of each use.
        flow_of: The flow of each use.
    """
    many = sizes[unit_of]
    before = np.cumsum(many) - many
    places = np.arange(int(many.sum())) + np.repeat(first[unit_of] - before, many)
    return places, np.repeat(flow_of, many)
