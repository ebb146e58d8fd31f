"""Transfers over links: equal to a process per hop, to theory, and to each other however they are started."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import InfeasibleError
from simsys.platform.environment import Environment
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import LinkSpec, Topology, binary_tree, full_mesh, ring, single_switch, torus_2d
from tests.helpers.reference import Message, NaiveCutThrough

B, L = 50e9, 500e-9
MIB = 2**20


def chain(bandwidths: Sequence[float], latencies: Sequence[float]) -> Topology:
    """Two GPUs at the ends of a line of links."""
    hops = len(bandwidths)
    places = [0, *range(2, hops + 1), 1]
    ends = itertools.pairwise(places)
    links = [LinkSpec(i, j, b, s, "chain") for (i, j), b, s in zip(ends, bandwidths, latencies, strict=True)]
    return Topology(2, hops + 1, tuple(links), "chain")


def mixed_speeds(topology: Topology, rng: random.Random) -> Topology:
    """The same links, each with a bandwidth and latency of its own."""
    links = tuple(
        LinkSpec(link.src, link.dst, rng.uniform(1.0, 20.0), rng.uniform(0.0, 2.0), link.kind)
        for link in topology.links
    )
    return Topology(topology.num_gpus, topology.num_vertices, links, topology.name)


def random_messages(topology: Topology, rng: random.Random, count: int) -> list[Message]:
    gpus = range(topology.num_gpus)
    one_way = topology.name == "chain"
    ends = [(0, 1) if one_way else rng.sample(gpus, 2) for _ in range(count)]
    return [Message(rng.uniform(0.0, 20.0), src, dst, rng.uniform(1.0, 100.0)) for src, dst in ends]


def arrivals(topology: Topology, messages: Sequence[Message]) -> tuple[list[float], CutThroughNetwork]:
    """When each message arrives in the network under test."""
    env = Environment()
    network = CutThroughNetwork(env, topology)
    ends: dict[int, float] = {}

    def start(index: int, message: Message) -> None:
        event = network.transfer(message.src, message.dst, message.nbytes)
        event.callbacks.append(lambda _: ends.setdefault(index, env.now))

    for index, message in enumerate(messages):
        env.at(message.start_s, lambda _, index=index, message=message: start(index, message))
    env.run()
    return [ends[index] for index in range(len(messages))], network


SHAPES = {
    "one link": chain([1.0], [0.0]),
    "chain": chain([1.0] * 5, [0.0] * 5),
    "ring": ring(6, 1.0, 0.0),
    "switch": single_switch(6, 1.0, 0.0),
    "tree": binary_tree(7, 1.0, 0.0),
    "torus": torus_2d(9, 1.0, 0.0),
    "cluster": nodes_on_fabric(3, 4, NodeInside("nvswitch", 1.0, 0.0), Nics(2, 1.0, 0.0), Fabric("switch", 1.0, 0.0)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_contended_transfers_arrive_as_in_the_process_per_hop_model(shape: str, seed: int) -> None:
    rng = random.Random(f"{shape} {seed}")
    topology = mixed_speeds(SHAPES[shape], rng)
    messages = random_messages(topology, rng, 60)
    ends, network = arrivals(topology, messages)
    assert ends == NaiveCutThrough(topology).arrivals(messages)
    for link in network.links:
        assert link.busy_s <= network.env.now * (1 + 1e-12)


bandwidths = st.floats(1.0, 1e3)
latencies = st.floats(0.0, 1.0)
hops = st.lists(st.tuples(bandwidths, latencies), min_size=1, max_size=6)


@given(hops, st.floats(1.0, 1e4))
def test_an_undisturbed_transfer_takes_all_latencies_and_the_slowest_link(
    hops: list[tuple[float, float]], nbytes: float
) -> None:
    topology = chain(*zip(*hops, strict=True))
    (end_s,), network = arrivals(topology, [Message(0.0, 0, 1, nbytes)])
    slowest = min(bytes_per_s for bytes_per_s, _ in hops)
    assert end_s == pytest.approx(sum(latency for _, latency in hops) + nbytes / slowest)
    assert network.idle_path([(0, 1)]) == (pytest.approx(sum(latency for _, latency in hops)), slowest)


@settings(max_examples=40)
@given(hops, st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(1.0, 1e3)), min_size=1, max_size=10))
def test_messages_on_one_way_do_not_overtake_and_lose_no_bytes(
    hops: list[tuple[float, float]], starts_and_sizes: list[tuple[float, float]]
) -> None:
    topology = chain(*zip(*hops, strict=True))
    messages = [Message(start_s, 0, 1, nbytes) for start_s, nbytes in sorted(starts_and_sizes)]
    ends, network = arrivals(topology, messages)
    assert ends == sorted(ends)
    for link in network.links:
        assert link.nbytes == pytest.approx(sum(message.nbytes for message in messages))
        assert link.busy_s * link.bytes_per_s >= link.nbytes * (1 - 1e-9)
        assert link.busy_s <= network.env.now


@pytest.mark.parametrize("flows", [1, 2, 5])
def test_equal_flows_on_one_link_follow_one_another(flows: int) -> None:
    ends, _ = arrivals(chain([B], [L]), [Message(0.0, 0, 1, 64 * MIB)] * flows)
    assert ends == [pytest.approx(k * 64 * MIB / B + L, rel=1e-12) for k in range(1, flows + 1)]


def test_incast_of_seven_through_a_switch() -> None:
    ends, _ = arrivals(single_switch(8, B, L), [Message(0.0, src, 0, 64 * MIB) for src in range(1, 8)])
    assert max(ends) == pytest.approx(9.396241e-3, abs=5e-10)


def test_a_fast_link_behind_a_slow_one_is_held_for_what_it_needs_itself() -> None:
    ends, network = arrivals(chain([10.0, 100.0], [1.0, 1.0]), [Message(0.0, 0, 1, 100.0)])
    slow, fast = network.links
    assert (slow.busy_s, fast.busy_s) == (10.0, 1.0)
    assert ends == [12.0]


@pytest.mark.parametrize(("fabric", "delay_s"), [("switch", 0.0), ("ring", 1.25)])
def test_slow_links_behind_a_fast_one_do_not_take_turns(fabric: str, delay_s: float) -> None:
    nics = nodes_on_fabric(2, 8, NodeInside("nvswitch", 1e12, 0.0), Nics(8, 10.0, 0.0), Fabric(fabric, 80.0, 0.0))
    ends, _ = arrivals(nics, [Message(0.0, gpu, gpu + 8, 100.0) for gpu in range(8)])
    # On a switch each NIC has its own port. On the shared link of a ring, first come, first served delays each head by
    # the serialisation of those before it, not by their whole transfer.
    assert ends == [pytest.approx(10.0 + delay_s * k, rel=1e-12) for k in range(8)]


def test_a_slow_link_behind_a_fast_one_does_not_hold_the_fast_one() -> None:
    ends, network = arrivals(chain([100.0, 10.0], [1.0, 1.0]), [Message(0.0, 0, 1, 100.0), Message(0.0, 0, 1, 100.0)])
    assert [link.busy_s for link in network.links] == [2.0, 20.0]
    assert ends == [12.0, 22.0]


def test_bytes_are_counted_on_every_link_of_the_route_and_no_other() -> None:
    _, network = arrivals(ring(5, B, L), [Message(0.0, 0, 2, 7.0), Message(0.0, 1, 2, 5.0)])
    carried = {(link.spec.src, link.spec.dst): link.nbytes for link in network.links if link.nbytes}
    assert carried == {(0, 1): 7.0, (1, 2): 12.0}


def test_an_empty_message_takes_the_latency_even_if_the_links_are_busy() -> None:
    messages = [Message(0.0, 0, 2, 1e9), Message(0.0, 0, 2, 0.0)]
    ends, network = arrivals(single_switch(3, B, L), messages)
    assert ends == [pytest.approx(1e9 / B + 2 * L), pytest.approx(2 * L)]
    assert {link.nbytes for link in network.links} == {0.0, 1e9}


@pytest.mark.parametrize("nbytes", [0.0, 1e9])
def test_a_message_to_oneself_takes_no_time_and_no_link(nbytes: float) -> None:
    ends, network = arrivals(full_mesh(3, B, L), [Message(2.5, 1, 1, nbytes)])
    assert ends == [2.5]
    assert not any(link.nbytes for link in network.links)
    latency_s, bytes_per_s = network.idle_path([(1, 1)])
    assert latency_s + nbytes / bytes_per_s == 0.0


@pytest.mark.parametrize("shape", SHAPES)
def test_transfers_started_together_end_with_the_last_of_them(shape: str) -> None:
    rng = random.Random(shape)
    topology = mixed_speeds(SHAPES[shape], rng)
    messages = [Message(0.0, message.src, message.dst, 42.0) for message in random_messages(topology, rng, 12)]
    ends, apart = arrivals(topology, messages)
    env = Environment()
    together = CutThroughNetwork(env, topology)
    env.run(together.carry([(message.src, message.dst) for message in messages], 42.0))
    assert env.now == max(ends)
    for one, other in zip(apart.links, together.links, strict=True):
        assert (one.busy_s, one.nbytes, one.free_at_s) == (other.busy_s, other.nbytes, other.free_at_s)


def test_transfers_over_equal_links_share_their_events() -> None:
    counts = []
    for size in (4, 32):
        env = Environment()
        network = CutThroughNetwork(env, single_switch(size, B, L))
        env.run(network.carry([(i, (i + 1) % size) for i in range(size)], 1e6))
        counts.append(env.events_scheduled)
    assert counts[0] == counts[1] <= 3


def test_no_transfers_at_all_are_done_at_once() -> None:
    env = Environment(3.0)
    env.run(CutThroughNetwork(env, full_mesh(2, B, L)).carry([], 5.0))
    assert env.now == 3.0


def test_an_idle_path_divides_what_is_shared() -> None:
    network = CutThroughNetwork(Environment(), single_switch(4, B, L))
    latency_s, bytes_per_s = network.idle_path([(0, 1), (0, 2), (3, 1)])
    assert latency_s == pytest.approx(2 * L)
    assert bytes_per_s == B / 2
    assert network.idle_path([]) == (0.0, math.inf)


def test_there_must_be_a_way() -> None:
    network = CutThroughNetwork(Environment(), Topology(2, 2, (LinkSpec(0, 1, B, L, "one-way"),), "one-way"))
    with pytest.raises(InfeasibleError, match="no path leads from vertex 1 to vertex 0"):
        network.transfer(1, 0, 1.0)
