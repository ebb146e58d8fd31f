"""Sets of flows (transfers of equal size that start together), and their rates.

A `FlowSet` knows the links of its flows, a `Portion` is the flows of a set with equal rates, and a `Stream` is the
remaining data of such flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from simsys.platform.claims import Claim
from simsys.platform.few_flows import few_uses
from simsys.platform.hop_units import Floats, HopUnits, Indexes, loads
from simsys.platform.pending_transfers import PendingTransfers
from simsys.platform.routing import Way, link_loads


class FlowSet:
    """Flows with equal progress at any time.

    Whole sets are created once for the transfers of a step; if rates differ, they continue as subsets.

    Args:
        ways: The path of each flow.
        whole: The superset of this subset; None if it is whole.
        members: Places of the flows of a subset in the whole set.
        joint: True if all stay in step with the slowest, as one flow over the links of all.
    """

    __slots__ = (
        "_hops",
        "_loads",
        "_subsets",
        "_whole_ways",
        "alone",
        "claims",
        "count",
        "joint",
        "known",
        "latency",
        "members",
        "near",
        "number",
        "sent_bytes",
        "started_bytes",
        "streams",
        "uses",
        "ways",
        "whole",
    )

    _numbers = count()

    def __init__(
        self,
        ways: Sequence[Way],
        whole: FlowSet | None = None,
        members: Indexes | None = None,
        *,
        joint: bool = False,
    ) -> None:
        self.number = next(self._numbers)
        self.ways = ways
        self.whole = whole if whole is not None else self
        self.joint = joint
        self.count = min(1, len(ways)) if joint else len(ways)
        """Flows that may have different rates."""
        self.members: Indexes = np.arange(self.count) if members is None else members
        self._whole_ways: Sequence[Way] = [(tuple(link_loads(ways).items()),)] if joint else ways
        self.uses = few_uses(self._whole_ways)
        """The links of each flow; None if these are many."""
        self._hops: HopUnits | None = None
        self.started_bytes = 0.0
        """Bytes per flow of the transfers that have begun, not yet counted by the links."""
        self.sent_bytes = 0.0
        """Bytes per flow that have been sent, not yet counted by the links."""
        self.latency: tuple[int, float] | None = None
        """The longest latency of a flow (s), and for which epoch of the links."""
        self.alone: tuple[int, Floats] | None = None
        """The rate of each flow if it were the only one, and for which epoch of the links."""
        self._loads: tuple[Indexes, Floats] | None = None
        self._subsets: dict[bytes, FlowSet] = {}
        self.known = False
        """Of a whole set, whether it has been sent, so that sets that share links know it."""
        self.near: dict[FlowSet, int] = {}
        """Of a whole set, other whole sets that have been sent and share links with it, numbered in order."""
        self.claims: list[Claim] = []
        """Of a whole set, claims on any of its links."""
        self.streams: dict[Stream, None] = {}
        """Active portions of a whole set."""

    @property
    def hops(self) -> HopUnits:
        """The distinct hops of its flows; of a joint set, one over all links."""
        if self._hops is None:
            self._hops = HopUnits(self._whole_ways)
        return self._hops

    @property
    def links(self) -> list[int]:
        """The numbers of its links."""
        links: list[int] = self.loads[0].tolist()
        return links

    @property
    def loads(self) -> tuple[Indexes, Floats]:
        """Each link, and what it carries for a byte of each flow."""
        if self._loads is None:
            self._loads = loads(self._whole_ways)
        return self._loads

    @property
    def subsets(self) -> Iterator[FlowSet]:
        """All subsets, and theirs."""
        for each in self._subsets.values():
            yield each
            yield from each.subsets

    def subset(self, flows: Indexes) -> FlowSet:
        """A subset of its flows; equal subsets are the same object."""
        if len(flows) == self.count:
            return self
        key = flows.tobytes()
        found = self._subsets.get(key)
        if found is None:
            found = self._subsets[key] = FlowSet([self.ways[flow] for flow in flows], self.whole, self.members[flows])
        return found


@dataclass(slots=True, eq=False)
class Portion:
    """Flows of one set that have the same rate while certain other sets are being sent.

    Args:
        flows: These flows.
        bytes_per_s: The rate of each.
        limits: For each flow the link that decides its rate.
        others: With the first of a set, the portions of its other flows.
        elapsed_s: For how long they have had this rate, not yet counted by the links.
    """

    flows: FlowSet
    bytes_per_s: float
    limits: Indexes
    others: Sequence[Portion] = ()
    elapsed_s: float = 0.0

    @property
    def parts(self) -> tuple[Portion, ...]:
        """Itself and the others of its set."""
        return self, *self.others


class Stream:
    """Flows with equal rates.

    Args:
        flows: The flows.
        left_bytes: Remaining bytes of each.
        batch: Their batch.
        since_s: Time of this state.
    """

    __slots__ = ("batch", "bytes_per_s", "end_s", "flows", "left_bytes", "portion", "since_s")

    def __init__(self, flows: FlowSet, left_bytes: float, batch: PendingTransfers, since_s: float) -> None:
        self.flows, self.left_bytes, self.batch, self.since_s = flows, left_bytes, batch, since_s
        self.portion: Portion | None = None
        """The portion that determines the rate; None before the rate is computed."""
        self.bytes_per_s = 0.0
        self.end_s = float("inf")
        """When the last bytes are sent, if nothing changes."""

    def settle(self, now_s: float) -> None:
        """Account for the bytes sent up to now."""
        elapsed_s = now_s - self.since_s
        if elapsed_s > 0.0 and self.portion is not None:
            sent_bytes = min(self.bytes_per_s * elapsed_s, self.left_bytes)
            self.left_bytes -= sent_bytes
            self.flows.sent_bytes += sent_bytes
            self.portion.elapsed_s += elapsed_s
        self.since_s = now_s

    def go_on(self, portion: Portion) -> bool:
        """Continue as part of a portion; return True if its end changes."""
        self.portion = portion
        if portion.bytes_per_s == self.bytes_per_s:
            return False
        self.bytes_per_s = portion.bytes_per_s
        self.end_s = self.since_s + self.left_bytes / self.bytes_per_s
        return True
