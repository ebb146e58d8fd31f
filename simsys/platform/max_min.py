"""Max-min fair rates by progressive filling.

All rates grow until a link is full; the flows on it keep their rate, the others continue to grow (Bertsekas & Gallager
1992, "Data Networks", §6.5.2). A flow spread over parallel links needs a share of its rate on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf

import numpy as np

from simsys.platform.few_flows import ROUNDINGS, few_together, filled_few
from simsys.platform.flow_set import FlowSet, Portion
from simsys.platform.hop_units import Floats, Indexes, spread
from simsys.platform.joined_hops import JoinedHops


def portions(sets: Sequence[FlowSet], bytes_per_s: Floats, hops: JoinedHops | None = None) -> list[Portion]:
    """Fill the links with flows.

    Args:
        sets: All flows of a connected component.
        bytes_per_s: The bandwidth of every link of the network.
        hops: The hops of the network, which knows those of most sets already; by default it knows none.

    Returns:
        For each set its slowest flows, with the others by rate.
    """
    first = list(accumulate([each.count for each in sets], initial=0))
    few = few_together([each.uses for each in sets])
    if few is not None:
        rates, limits = filled_few(few, bytes_per_s)
    else:
        uses = _uses(sets, np.array(first), bytes_per_s, hops or JoinedHops())
        rates, limits = _filled(first[-1], *uses, bytes_per_s)
    return [
        Portion(each, rates[start], limits[start : start + 1])
        if each.count == 1
        else _by_rate(each, rates[start : start + each.count], limits[start : start + each.count])
        for each, start in zip(sets, first, strict=False)
    ]


def losses(
    late: Sequence[Portion], seconds: Sequence[float], bytes_per_s: Floats, epoch: int
) -> tuple[Indexes, Floats]:
    """What flows have lost by sharing links.

    Args:
        late: The flows.
        seconds: For how long each portion has had its rate.
        bytes_per_s: The bandwidth of every link of the network.
        epoch: Of these bandwidths.

    Returns:
        For each flow the link that decides its rate, and the seconds that it would need less on links for itself.
    """
    counts = [portion.flows.count for portion in late]
    alone_by_set = {flows: _alone_bytes_per_s(flows, bytes_per_s, epoch) for flows in {each.flows for each in late}}
    alone = np.concatenate([alone_by_set[portion.flows] for portion in late])
    rates = np.repeat([portion.bytes_per_s for portion in late], counts)
    lost_s = np.repeat(seconds, counts) * (1.0 - rates / alone)
    for end, portion in zip(np.cumsum(counts).tolist(), late, strict=True):
        if portion.flows.joint:  # the limiting link belongs to some of its transfers
            hops = portion.flows.hops
            lost_s[end - 1 : end] *= hops.shares[hops.links == portion.limits]
    return np.concatenate([portion.limits for portion in late]), lost_s


def _alone_bytes_per_s(flows: FlowSet, bytes_per_s: Floats, epoch: int) -> Floats:
    """As `alone_bytes_per_s`, kept for an epoch."""
    if flows.alone is None or flows.alone[0] != epoch:
        flows.alone = epoch, alone_bytes_per_s(flows, bytes_per_s)
    return flows.alone[1]


def alone_bytes_per_s(flows: FlowSet, bytes_per_s: Floats) -> Floats:
    """The rate of each flow alone on its links; of a joint set, the rate of its slowest transfer."""
    if flows.joint:
        parts = {id(hop): hop for way in flows.ways for hop in way}
        return np.array([min(bytes_per_s[link] / share for hop in parts.values() for link, share in hop)])
    if flows.uses is not None:
        bandwidth = bytes_per_s.item
        alone = [min([bandwidth(link) / share for link, share in use], default=inf) for use in flows.uses]
        return np.array(alone, dtype=np.float64)
    hops, rates = flows.hops, np.full(flows.count, np.inf)
    if len(hops.keys):
        slowest = np.minimum.reduceat(bytes_per_s[hops.links] / hops.shares, hops.first[:-1])
        np.minimum.at(rates, hops.flow_of, slowest[hops.unit_of])
    return rates


def _uses(
    sets: Sequence[FlowSet], first: Indexes, bytes_per_s: Floats, hops: JoinedHops
) -> tuple[Indexes, Indexes, Floats]:
    """The flow, the link and the share of every link that a flow uses.

    Links over which flows spread evenly, and which no flow uses but all together, are full at the same level. The last
    of them stands for all.
    """
    units = hops.join(sets, first) if len(sets) > 1 else sets[0].hops
    counted = sizes = units.sizes
    starts = units.first[: len(sizes)]
    if sizes.max(initial=1) > 1:
        _, place_of, users = np.unique(units.links, return_inverse=True, return_counts=True)
        rates = bytes_per_s[units.links]
        least, most = (
            [each.reduceat(figures, starts) for figures in (rates, units.shares)] for each in (np.minimum, np.maximum)
        )
        even = (least[0] == most[0]) & (least[1] == most[1])
        alone = np.maximum.reduceat(users[place_of], starts) == 1
        counted = np.where(even & alone, 1, sizes)
        starts = starts + sizes - counted
    places, flow_of = spread(starts, counted, units.unit_of, units.flow_of)
    return flow_of, units.links[places], units.shares[places]


def _filled(
    flows: int, flow_of: Indexes, link_of: Indexes, share_of: Floats, bytes_per_s: Floats
) -> tuple[list[float], Indexes]:
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
        full = (levels <= level * (1.0 + ROUNDINGS))[link_of]
        stopping = flow_of[full]
        rates[stopping], limits[stopping] = level, used[link_of[full]]
        stopped[stopping] = True
        gone = stopped[flow_of]
        if gone.all():
            break
        going_on = ~gone
        left -= level * np.bincount(link_of[gone], share_of[gone], len(used))
        flow_of, link_of, share_of = flow_of[going_on], link_of[going_on], share_of[going_on]
    return rates.tolist(), limits


def _by_rate(flows: FlowSet, each: Sequence[float], limits: Indexes) -> Portion:
    levels = sorted(set(each))
    if len(levels) == 1:
        return Portion(flows, levels[0], limits)
    found = []
    for level in levels:
        members = np.array([flow for flow, rate in enumerate(each) if rate == level], dtype=np.intp)
        found.append(Portion(flows.subset(members), level, limits[members]))
    found[0].others = found[1:]
    return found[0]
