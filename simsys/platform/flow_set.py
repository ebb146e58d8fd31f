"""Sets of flows: transfers of equal size that start together, and which links they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simsys.platform.routing import Way, link_loads

if TYPE_CHECKING:
    from simsys.platform.fair import FairClaim
    from simsys.platform.stream import Stream

Indexes = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


class FlowSet:
    """Flows that have sent equally much at any time.

    Whole sets are made once for the transfers of a step; where links give some of these more than others, they go on
    as subsets. The arrays `flow_of`, `link_of` and `share_of` have one entry for each link that a flow uses.

    Args:
        ways: The way of each flow.
        whole: The set that this is a subset of; None if it is whole.
        joint: Whether all keep step with the slowest of them, as one flow over the links of all.
    """

    __slots__ = (
        "_subsets",
        "alone",
        "claims",
        "count",
        "flow_of",
        "joint",
        "latency",
        "link_of",
        "near",
        "number",
        "sent_bytes",
        "share_of",
        "started_bytes",
        "streams",
        "ways",
        "whole",
    )

    _numbers = count()

    def __init__(self, ways: Sequence[Way], whole: FlowSet | None = None, *, joint: bool = False) -> None:
        self.number = next(self._numbers)
        self.ways = ways
        self.whole = whole if whole is not None else self
        self.joint = joint
        self.count = min(1, len(ways)) if joint else len(ways)
        """Flows that may have different rates."""
        entries = [(flow, *part) for flow, way in enumerate(ways) for hop in way for part in hop]
        if joint:
            load = link_loads(ways)
            entries = [(0, link, share) for link, share in load.items()]
        self.flow_of: Indexes = np.array([flow for flow, _, _ in entries], dtype=np.intp)
        self.link_of: Indexes = np.array([link for _, link, _ in entries], dtype=np.intp)
        self.share_of: Floats = np.array([share for _, _, share in entries], dtype=np.float64)
        self.started_bytes = 0.0
        """Bytes per flow of the transfers that have begun, not yet counted by the links."""
        self.sent_bytes = 0.0
        """Bytes per flow that have been sent, not yet counted by the links."""
        self.latency: tuple[int, float] | None = None
        """The longest latency of a flow (s), and for which epoch of the links."""
        self.alone: tuple[int, Floats] | None = None
        """The rate of each flow if it were the only one, and for which epoch of the links."""
        self._subsets: dict[bytes, FlowSet] = {}
        self.near: list[FlowSet] = []
        """Of a whole set, the other whole sets with which it shares links."""
        self.claims: list[FairClaim] = []
        """Of a whole set, claims on any of its links."""
        self.streams: dict[Stream, None] = {}
        """Of a whole set, what is being sent."""

    @property
    def links(self) -> list[int]:
        """The numbers of its links."""
        return [int(link) for link in np.unique(self.link_of)]

    @property
    def subsets(self) -> Iterator[FlowSet]:
        """All subsets, and theirs."""
        for each in self._subsets.values():
            yield each
            yield from each.subsets

    def subset(self, flows: Indexes) -> FlowSet:
        """Some of its flows; always the same object for the same ones."""
        if len(flows) == self.count:
            return self
        key = flows.tobytes()
        found = self._subsets.get(key)
        if found is None:
            found = self._subsets[key] = FlowSet([self.ways[flow] for flow in flows], self.whole)
        return found
