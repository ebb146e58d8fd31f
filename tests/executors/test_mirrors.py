"""Mirrors that share links: who is slowed by whom, and whether they stay in step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import UsageError
from simsys.executors.mirrors import in_lockstep, out_of_step
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fat_tree import fat_tree
from simsys.platform.fifo import StoreAndForwardNetwork
from simsys.platform.network import Pairs
from simsys.platform.routing import Routing
from simsys.platform.topology import LinkSpec, Topology, single_switch


def pairs_of_ends(narrow: float, slow_s: float) -> Topology:
    """Two senders through one wide link to two receivers; the second receiver may be narrower, or farther away."""
    links = [
        LinkSpec(0, 4, 1e9, 1e-6, "nic"),
        LinkSpec(1, 4, 1e9, 1e-6, "nic"),
        LinkSpec(4, 5, 4e9, 1e-6, "nic"),
        LinkSpec(5, 2, 1e9, 1e-6, "nic"),
        LinkSpec(5, 3, narrow, slow_s, "nic"),
    ]
    return Topology(num_gpus=4, num_vertices=6, links=tuple(links), name="two pairs", names=("in", "out"))


@pytest.mark.parametrize(
    ("narrow", "slow_s", "classes", "slowed"),
    [(1e9, 1e-6, 1, False), (1e9, 9e-6, 2, False), (5e8, 1e-6, 2, True)],
    ids=["equal", "farther", "narrower"],
)
def test_mirrors_are_slowed_unequally_by_bandwidth_not_by_latency(
    narrow: float, slow_s: float, classes: int, slowed: bool
) -> None:
    network = FairNetwork(Environment(), pairs_of_ends(narrow, slow_s))
    steps = [([(0, 2)], 1e6, 1, 0.0)]
    assert len(in_lockstep(network, steps, [0, 1], 0.0)) == classes
    assert out_of_step(network, steps, [0, 1], 0.0) is slowed


def rehearsed(network: FairNetwork, groups: list[Pairs], nbytes: float) -> list[float]:
    """The ends of groups that start together, event by event."""
    copy, ends_s = network.idle_copy(0.0), [0.0] * len(groups)

    def ended(place: int, _: object) -> None:
        ends_s[place] = copy.env.now

    for place, pairs in enumerate(groups):
        copy.begin(copy.prepare(pairs), nbytes).callbacks.append(partial(ended, place))
    copy.env.run()
    return ends_s


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=4), min_size=1, max_size=5
    ),
    st.sampled_from([1.0, 1e4, 1e9]),
    st.booleans(),
)
def test_ends_of_groups_are_those_of_a_rehearsal(groups: list[Pairs], nbytes: float, spreads: bool) -> None:
    tree = replace(fat_tree(16, 1e9, 1e-6, leaf_size=4, radix=8), routing=Routing("per_packet"))
    topology = tree if spreads else single_switch(16, 1e9, 1e-6)
    network = FairNetwork(Environment(), topology)
    expected = rehearsed(network, groups, nbytes)
    for _ in range(2):  # the second answer is kept
        assert network.ends_together(groups, nbytes) == pytest.approx(expected, rel=1e-9)


def test_links_that_serve_in_turn_have_no_common_ends() -> None:
    with pytest.raises(UsageError, match="serve in turn"):
        StoreAndForwardNetwork(Environment(), single_switch(4, 1e9, 1e-6)).ends_together([[(0, 1)]], 1.0)
