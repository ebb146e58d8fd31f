"""The hops of several sets of flows together, put together from arrays that are made once per set."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from simsys.platform.flow_set import FlowSet
from simsys.platform.hop_units import Floats, Indexes, spread


class Joined(NamedTuple):
    """Distinct hops, as `HopUnits`.

    Args:
        flow_of: The flow of each use of a hop.
        unit_of: The hop of each use.
        first: Where the links of each hop begin.
        sizes: The number of links of each hop.
        links: The links of all hops, hop by hop.
        shares: The share of the bytes of a flow on each.
    """

    flow_of: Indexes
    unit_of: Indexes
    first: Indexes
    sizes: Indexes
    links: Indexes
    shares: Floats


class JoinedHops:
    """All distinct hops of the sets of flows of a network, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._used: dict[FlowSet, Indexes] = {}  # by set, which keeps its hops: the number of the hop of each use
        self._first, self._sizes, self._links = (np.zeros(0, dtype=np.intp) for _ in range(3))
        self._shares = np.zeros(0, dtype=np.float64)

    def join(self, sets: Sequence[FlowSet], first: Indexes) -> Joined:
        """Return the distinct hops of several sets.

        Args:
            sets: The sets.
            first: The number of the first flow of each.
        """
        used = [self._used[each] if each in self._used else self._register(each) for each in sets]
        present, unit_of = np.unique(np.concatenate(used), return_inverse=True)
        places, _ = spread(self._first, self._sizes, present, present)
        flow_of = np.concatenate([each.hops.flow_of for each in sets])
        flow_of += np.repeat(first[: len(sets)], [len(each) for each in used])
        sizes = self._sizes[present]
        return Joined(flow_of, unit_of, np.cumsum(sizes) - sizes, sizes, self._links[places], self._shares[places])

    def _register(self, flows: FlowSet) -> Indexes:
        """Number the hops of a set; return those of its uses."""
        hops, numbers, known = flows.hops, self._numbers, len(self._numbers)
        number_of = np.array([numbers.setdefault(key, len(numbers)) for key in hops.keys], dtype=np.intp)
        new = number_of >= known
        places = np.repeat(new, hops.sizes)
        sizes = hops.sizes[new]
        self._first = np.append(self._first, len(self._links) + np.cumsum(sizes) - sizes)
        self._sizes = np.append(self._sizes, sizes)
        self._links = np.append(self._links, hops.links[places])
        self._shares = np.append(self._shares, hops.shares[places])
        found = self._used[flows] = number_of[hops.unit_of]
        return found
