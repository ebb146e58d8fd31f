"""Max-min fair rates by progressive filling, only for the flows that a change can affect.

All flows get more until a link is full; those on it keep what they have, the others go on (Bertsekas & Gallager 1992,
"Data Networks", §6.5.2). Flows that come or go change nothing below a certain rate: a link that is full at less is on
none of their routes. So flows with lower rates keep them, and of the others only those are looked at that share links,
directly or through others, with flows that came or went.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace

from simsys.platform.flow import FairLink, Flow

_ROUNDINGS = 1e-12  # rates that differ by no more are the same


def fair_rates(links: Iterable[FairLink], lowest_bytes_per_s: float) -> list[tuple[Flow, float, FairLink]]:
    """Fill links on which flows have come or gone.

    Args:
        links: Those links.
        lowest_bytes_per_s: Below this rate nothing can have changed: no more than the rates of the flows that have
            gone, and than an equal share of each link on which flows have come.

    Returns:
        Flows whose rate may have changed, each with its rate and the link that decides it.
    """
    region, flows = _affected(links, lowest_bytes_per_s * (1.0 - _ROUNDINGS))
    heap = [(link.left_bytes_per_s / link.filling, place, link) for place, link in enumerate(region) if link.filling]
    heapify(heap)
    level, found = 0.0, []
    left = len(flows)
    while left:
        share, place, link = heap[0]
        filling = link.filling
        if not filling:
            heappop(heap)
            continue
        now_share = link.left_bytes_per_s / filling
        if now_share > share:  # flows on it have stopped at less: its turn comes later
            heapreplace(heap, (now_share, place, link))
            continue
        heappop(heap)
        if now_share > level * (1.0 + _ROUNDINGS):
            level = now_share
        for flow in link.flows:
            if flow.filling:
                flow.filling = False
                found.append((flow, level, link))
                for each in flow.route:
                    each.left_bytes_per_s -= level
                    each.filling -= 1
        left -= filling
    for link in region:
        link.looked_at = False
    return found


def _affected(links: Iterable[FairLink], lowest_bytes_per_s: float) -> tuple[list[FairLink], list[Flow]]:
    """The links that can be reached from some over flows that may change, and these flows; made ready for filling."""
    region, flows = list(links), list[Flow]()
    for link in region:
        link.looked_at = True
    for link in region:  # which grows meanwhile
        left, filling = link.bytes_per_s, 0
        for flow in link.flows:
            if not flow.filling:
                if 0.0 < flow.bytes_per_s < lowest_bytes_per_s:
                    left -= flow.bytes_per_s
                    continue
                flow.filling = True
                flows.append(flow)
                for other in flow.route:
                    if not other.looked_at:
                        other.looked_at = True
                        region.append(other)
            filling += 1
        link.left_bytes_per_s, link.filling = left, filling
    return region, flows
