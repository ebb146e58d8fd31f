"""Hops that flows share are known once, with the same entries and loads as hop by hop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform import few_flows
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.flow_set import FlowSet
from simsys.platform.hop_units import HopUnits, loads
from simsys.platform.max_min import portions
from simsys.platform.routing import Hop, Way, link_loads

HOPS: tuple[Hop, ...] = (
    ((0, 1.0),),
    ((1, 1.0),),
    ((2, 0.25), (3, 0.25), (4, 0.25), (5, 0.25)),
    ((6, 0.5), (7, 0.5)),
    ((7, 0.3), (8, 0.7)),
    ((8, 1.0),),
)
ways = st.lists(
    st.lists(st.sampled_from(HOPS), min_size=1, max_size=4, unique_by=id).map(tuple), min_size=1, max_size=6
)


def copied(given_ways: list[Way]) -> list[Way]:
    """The same ways, of which no two share a hop, so that every link of every flow counts for itself."""
    return [tuple((*hop,) for hop in way) for way in given_ways]


@given(ways)
def test_entries_are_the_links_of_every_flow_in_order(given_ways: list[Way]) -> None:
    flow_of, link_of, share_of = HopUnits(given_ways).entries()
    found = list(zip(flow_of.tolist(), link_of.tolist(), share_of.tolist(), strict=True))
    assert found == [(flow, *part) for flow, way in enumerate(given_ways) for hop in way for part in hop]


@given(ways)
def test_loads_are_those_of_all_flows(given_ways: list[Way]) -> None:
    links, carried = loads(given_ways)
    assert dict(zip(links.tolist(), carried.tolist(), strict=True)) == pytest.approx(link_loads(given_ways))


@given(st.lists(ways, min_size=1, max_size=3), st.lists(st.sampled_from((1e9, 3e9, 7.3e9)), min_size=9, max_size=9))
def test_rates_are_the_same_to_the_bit_with_one_link_for_all_of_a_hop(
    given_sets: list[list[Way]], bytes_per_s: list[float]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_flows, "FEW", 0)  # in arrays, which alone treat hops so
        shared, alone = (
            [
                [(part.bytes_per_s, part.flows.members.tolist(), part.limits.tolist()) for part in own.parts]
                for own in portions([FlowSet(each) for each in sets], np.array(bytes_per_s))
            ]
            for sets in (given_sets, [copied(each) for each in given_sets])
        )
    assert shared == alone


def test_flows_that_leave_a_switch_for_the_same_spines_share_a_hop() -> None:
    tree = TOPOLOGY_TYPES["fat_tree"](16, 1e9, 0.0, leaf_size=4)
    first, second = tree.way(0, 5), tree.way(1, 13)
    assert len(first[1]) > 1
    assert first[1] is second[1]
