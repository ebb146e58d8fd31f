"""Sets of flows that share links know each other once they have been sent."""

from __future__ import annotations

import random

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.flow_set import FlowSet
from simsys.platform.neighbours import Neighbours
from simsys.platform.topology import single_switch


def flows(network: FairNetwork, *pairs: tuple[int, int]) -> FlowSet:
    return network.prepare(pairs)


def test_only_what_has_been_sent_is_looked_at() -> None:
    network, neighbours = FairNetwork(Environment(), single_switch(6, 1e9, 0.0)), Neighbours()
    one, other, apart = flows(network, (0, 1)), flows(network, (2, 1)), flows(network, (3, 4))
    for each in (one, apart):
        neighbours.introduce(each)
    assert (one.near, other.near, apart.near) == ({}, {}, {})
    neighbours.introduce(other)
    assert (one.near, other.near, apart.near) == ({other: 0}, {one: 0}, {})
    assert [neighbours.using([link]) for link in one.links] == [[one], [one, other]]
    assert neighbours.using([other.links[0] if other.links[0] not in one.links else other.links[1]]) == [other]
    assert neighbours.using([-1]) == []


def test_sets_meet_as_if_every_link_had_a_list_of_its_own() -> None:
    """Random sets of flows, whose order matters too, since rates are added in it."""
    network = FairNetwork(Environment(), single_switch(8, 1e9, 0.0))
    rng, neighbours = random.Random(1), Neighbours()
    users: dict[int, list[FlowSet]] = {}
    sent: list[FlowSet] = []
    for _ in range(60):
        one = flows(network, *(tuple(rng.sample(range(8), 2)) for _ in range(rng.randint(1, 5))))
        if one.known:
            continue
        met = list(dict.fromkeys(user for link in one.links for user in users.get(link, [])))
        neighbours.introduce(one)
        sent.append(one)
        assert list(one.near) == met
        for link in one.links:
            users.setdefault(link, []).append(one)
        links = rng.sample(sorted(users), min(3, len(users)))
        assert neighbours.using(links) == list(dict.fromkeys(user for link in links for user in users[link]))
    assert all(list(one.near.values()) == list(range(len(one.near))) for one in sent)


def test_a_flow_through_others_slows_those_at_both_ends() -> None:
    """Three flows of which the middle one shares a link with each of the others."""
    network = FairNetwork(Environment(), single_switch(6, 1e9, 0.0))
    ends = [network.carry([pair], 1e9) for pair in ((0, 1), (0, 3), (2, 3))]
    network.env.run(until=network.env.all_of(ends))
    assert network.env.now == 2.0


def test_rates_change_at_once_when_nothing_else_is_due() -> None:
    """One event for the end of the first flow, in which the second gets the whole link."""
    network = FairNetwork(Environment(), single_switch(3, 1e9, 1.0))
    ends = [network.carry([(0, 2)], 1e9), network.carry([(1, 2)], 2e9)]
    network.env.run(until=ends[1])
    assert network.env.now == 5.0
    assert network.env.events_scheduled == 5
