"""Rates of flows are max-min fair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform import few_flows
from simsys.platform.flow_set import FlowSet
from simsys.platform.max_min import portions

LINKS = 6
shares = st.sampled_from((1.0, 0.5, 1 / 3, 0.1))
hops = st.lists(
    st.tuples(st.integers(0, LINKS - 1), shares), min_size=1, max_size=3, unique_by=lambda part: part[0]
).map(tuple)
ways = st.lists(hops, min_size=1, max_size=4).map(tuple)
sets = st.lists(st.tuples(st.lists(ways, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=4)
bandwidths = st.lists(st.sampled_from((1e9, 3e9, 1e10, 25e9, 7.3e9)), min_size=LINKS, max_size=LINKS)


@given(sets, bandwidths)
def test_every_flow_has_a_full_link_on_which_no_flow_gets_more(
    given_sets: list[tuple[list[tuple[tuple[tuple[int, float], ...], ...]], bool]], given_rates: list[float]
) -> None:
    flows = [FlowSet(each, joint=joint) for each, joint in given_sets]
    parts = [part for own in portions(flows, np.array(given_rates)) for part in own.parts]
    carried, fastest = np.zeros(LINKS), np.zeros(LINKS)
    for part in parts:
        _, link_of, share_of = part.flows.hops.entries()
        np.add.at(carried, link_of, part.bytes_per_s * share_of)
        np.maximum.at(fastest, link_of, part.bytes_per_s)
    assert (carried <= np.array(given_rates) * (1 + 1e-9)).all()
    for part in parts:
        for link in part.limits.tolist():
            assert carried[link] == pytest.approx(given_rates[link], rel=1e-9)
            assert part.bytes_per_s == pytest.approx(fastest[link], rel=1e-9)


def test_a_flow_gets_what_the_others_on_its_link_leave() -> None:
    """Three flows on links of 1 and 3 GB/s, of which the second has both: 0.5, 0.5 and 2.5 GB/s."""
    flows = [FlowSet([way]) for way in ((((0, 1.0),),), (((0, 1.0),), ((1, 1.0),)), (((1, 1.0),),))]
    found = portions(flows, np.array([1e9, 3e9]))
    assert [(part.bytes_per_s, part.limits.tolist(), part.others) for part in found] == [
        (0.5e9, [0], ()),
        (0.5e9, [0], ()),
        (2.5e9, [1], ()),
    ]


@given(sets, bandwidths)
def test_rates_of_few_flows_are_those_of_many_to_the_bit(
    given_sets: list[tuple[list[tuple[tuple[tuple[int, float], ...], ...]], bool]], given_rates: list[float]
) -> None:
    found = []
    for few in (few_flows.FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(few_flows, "FEW", few)
            flows = [FlowSet(each, joint=joint) for each, joint in given_sets]
            assert all((each.uses is None) == (few == 0) for each in flows)
            found.append(
                [
                    [(part.bytes_per_s, part.flows.members.tolist(), part.limits.tolist()) for part in own.parts]
                    for own in portions(flows, np.array(given_rates))
                ]
            )
    assert found[0] == found[1]
