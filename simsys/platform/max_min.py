"""Max-min fair rates by progressive filling.

All rates grow until a link is full; the flows on it keep their rate, the others continue to grow (Bertsekas & Gallager
1992, "Data Networks", §6.5.2). A flow spread over parallel links needs a share of its rate on each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simsys.platform.flow_set import Floats, FlowSet, Indexes, Portion

_ROUNDINGS = 1e-12  # rates that differ by no more, relatively, are the same


def portions(sets: Sequence[FlowSet], bytes_per_s: Floats) -> list[list[Portion]]:
    """Fill the links with flows.

    Args:
        sets: All flows of a connected component.
        bytes_per_s: The bandwidth of every link of the network.

    Returns:
        For each set its flows by rate.
    """
    first = np.cumsum([0, *[each.count for each in sets]])
    flow_of = np.concatenate([each.flow_of + start for each, start in zip(sets, first, strict=False)])
    link_of = np.concatenate([each.link_of for each in sets])
    share_of = np.concatenate([each.share_of for each in sets])
    rates, limits = _filled(int(first[-1]), flow_of, link_of, share_of, bytes_per_s)
    return [
        _by_rate(each, rates[start : start + each.count], limits[start : start + each.count])
        for each, start in zip(sets, first, strict=False)
    ]


def alone_bytes_per_s(flows: FlowSet, bytes_per_s: Floats) -> Floats:
    """The rate of each flow alone on its links; of a joint set, the rate of its slowest transfer."""
    if flows.joint:
        alone = [bytes_per_s[link] / share for way in flows.ways for hop in way for link, share in hop]
        return np.array([min(alone)])
    rates = np.full(flows.count, np.inf)
    np.minimum.at(rates, flows.flow_of, bytes_per_s[flows.link_of] / flows.share_of)
    return rates


def _filled(
    flows: int, flow_of: Indexes, link_of: Indexes, share_of: Floats, bytes_per_s: Floats
) -> tuple[Floats, Indexes]:
    """The rate of each flow and the link that decides it."""
    used, link_of = np.unique(link_of, return_inverse=True)
    left, level = bytes_per_s[used].astype(float), 0.0
    rates, limits = np.zeros(flows), np.zeros(flows, dtype=np.intp)
    stopped = np.zeros(flows, dtype=bool)
    levels = np.empty(len(used))
    while len(flow_of):
        wanted = np.bincount(link_of, share_of, len(used))
        levels.fill(np.inf)
        np.divide(left, wanted, out=levels, where=wanted > 0.0)
        level = max(level, float(levels.min()))
        full = (levels <= level * (1.0 + _ROUNDINGS))[link_of]
        stopping = flow_of[full]
        rates[stopping], limits[stopping] = level, used[link_of[full]]
        stopped[stopping] = True
        gone = stopped[flow_of]
        if gone.all():
            break
        going_on = ~gone
        left -= level * np.bincount(link_of[gone], share_of[gone], len(used))
        flow_of, link_of, share_of = flow_of[going_on], link_of[going_on], share_of[going_on]
    return rates, limits


def _by_rate(flows: FlowSet, rates: Floats, limits: Indexes) -> list[Portion]:
    each = rates.tolist()
    levels = sorted(set(each))
    if len(levels) == 1:
        return [Portion(flows, levels[0], limits)]
    found = []
    for level in levels:
        members = np.array([flow for flow, rate in enumerate(each) if rate == level], dtype=np.intp)
        found.append(Portion(flows.subset(members), level, limits[members]))
    return found
