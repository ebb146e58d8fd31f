"""Rates of flows: the loop over few flows and the arrays for many give the same numbers."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform import max_min
from simsys.platform.flow_set import FlowSet

LINKS = 6
shares = st.sampled_from((1.0, 0.5, 1 / 3, 0.1))
hops = st.lists(st.tuples(st.integers(0, LINKS - 1), shares), min_size=1, max_size=3).map(tuple)
ways = st.lists(hops, min_size=1, max_size=4).map(tuple)
sets = st.lists(st.tuples(st.lists(ways, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=4)
bandwidths = st.lists(st.sampled_from((1e9, 3e9, 1e10, 25e9, 7.3e9)), min_size=LINKS, max_size=LINKS)


def solved(flows: list[FlowSet], bytes_per_s: max_min.Floats, few: int) -> list[list[tuple[bytes, float, list[int]]]]:
    with patch.object(max_min, "FEW", few):
        found = max_min.portions(flows, bytes_per_s)
    return [
        [(part.flows.link_of.tobytes(), part.bytes_per_s, part.limits.tolist()) for part in parts] for parts in found
    ]


@given(sets, bandwidths)
def test_the_loop_over_few_flows_equals_arrays_to_the_last_bit(
    given_sets: list[tuple[list[tuple[tuple[tuple[int, float], ...], ...]], bool]], given_rates: list[float]
) -> None:
    flows, rates = [FlowSet(each, joint=joint) for each, joint in given_sets], np.array(given_rates)
    assert solved(flows, rates, 10**6) == solved(flows, rates, 0)


def test_a_flow_gets_what_the_others_on_its_link_leave() -> None:
    """Three flows on links of 1 and 3 GB/s, of which the second has both: 0.5, 0.5 and 2.5 GB/s."""
    flows = [FlowSet([way]) for way in ((((0, 1.0),),), (((0, 1.0),), ((1, 1.0),)), (((1, 1.0),),))]
    for few in (0, max_min.FEW):
        found = solved(flows, np.array([1e9, 3e9]), few)
        assert [[(part[1], part[2]) for part in parts] for parts in found] == [
            [(0.5e9, [0])],
            [(0.5e9, [0])],
            [(2.5e9, [1])],
        ]
