"""Max-min fair sharing: equal to filling all links anew at every change, to theory, and to published cases."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import LinkSpec, Topology, binary_tree, full_mesh, ring, single_switch, torus_2d
from tests.helpers.reference import Message, NaiveFairNetwork
from tests.helpers.thorough import cases

B, L = 50e9, 500e-9
MIB = 2**20
SIZE = 64 * MIB


def arrivals(topology: Topology, messages: Sequence[Message]) -> tuple[list[float], FairNetwork]:
    """When each message arrives."""
    env = Environment()
    network = FairNetwork(env, topology)
    ends: dict[int, float] = {}

    def start(index: int, message: Message) -> None:
        event = network.transfer(message.src, message.dst, message.nbytes)
        event.callbacks.append(lambda _: ends.setdefault(index, env.now))

    for index, message in enumerate(messages):
        env.at(message.start_s, lambda _, index=index, message=message: start(index, message))
    env.run()
    return [ends[index] for index in range(len(messages))], network


def line(*bytes_per_s: float) -> Topology:
    """GPUs in a line, linked upwards."""
    links = tuple(LinkSpec(i, i + 1, rate, L, "line") for i, rate in enumerate(bytes_per_s))
    return Topology(len(bytes_per_s) + 1, len(bytes_per_s) + 1, links, "line")


@pytest.mark.parametrize("flows", [1, 2, 3, 8, 64])
def test_equal_flows_on_one_link_all_end_together(flows: int) -> None:
    ends, network = arrivals(line(B), [Message(0.0, 0, 1, SIZE)] * flows)
    assert ends == [pytest.approx(flows * SIZE / B + L, rel=1e-12)] * flows
    assert network.env.events_scheduled <= 2 * flows + 3  # starts, arrivals; one change at the start, one at the end


def test_two_flows_of_which_one_starts_half_way_take_equally_long() -> None:
    starts = [0.0, SIZE / B / 2]
    ends, _ = arrivals(line(B), [Message(start_s, 0, 1, SIZE) for start_s in starts])
    assert [end - start for end, start in zip(ends, starts, strict=True)] == [
        pytest.approx(2.013766e-3, abs=5e-10)
    ] * 2


@pytest.mark.parametrize(("second", "expected"), [(B, (2.684355e-3, 2.684355e-3)), (20e9, (1.677722e-3, 6.710886e-3))])
def test_a_flow_over_two_links_gets_what_the_narrower_one_gives(second: float, expected: tuple[float, float]) -> None:
    ends, _ = arrivals(line(B, second), [Message(0.0, 0, 1, SIZE), Message(0.0, 0, 2, SIZE), Message(0.0, 1, 2, SIZE)])
    latencies = (L, 2 * L, L)
    sent = [end - latency for end, latency in zip(ends, latencies, strict=True)]
    assert sent == [pytest.approx(seconds, abs=1e-9) for seconds in (expected[0], expected[1], expected[1])]


def test_incast_of_seven_through_a_switch_ends_at_once_for_all() -> None:
    ends, _ = arrivals(single_switch(8, B, L), [Message(0.0, src, 0, SIZE) for src in range(1, 8)])
    assert ends == [pytest.approx(9.396241e-3, abs=5e-10)] * 7


SHAPES = {
    "mesh": full_mesh(5, 3.0, 0.2),
    "ring": ring(6, 3.0, 0.2),
    "switch": single_switch(6, 3.0, 0.2),
    "tree": binary_tree(7, 3.0, 0.2),
    "torus": torus_2d(9, 3.0, 0.2),
    "nodes": nodes_on_fabric(3, 3, NodeInside("nvswitch", 9.0, 0.1), Nics(1, 2.0, 0.1), Fabric("ring", 4.0, 0.2)),
}


def flow_set(topology: Topology, rng: random.Random) -> list[Message]:
    """Flows that come one by one, or some at the same moment and of the same size."""
    moments = [rng.uniform(0.0, 30.0) for _ in range(rng.randint(1, 8))]
    sizes = [rng.uniform(1.0, 40.0) for _ in range(rng.choice((1, 3, 30)))]
    return [
        Message(rng.choice(moments), *rng.sample(range(topology.num_gpus), 2), rng.choice(sizes))
        for _ in range(rng.randint(1, 24))
    ]


@pytest.mark.parametrize("equal_speeds", [True, False], ids=["equal speeds", "speeds of their own"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", range(4))
def test_flows_end_as_if_all_rates_were_found_anew_at_every_change(shape: str, equal_speeds: bool, block: int) -> None:
    for seed in range(cases(45, 15)):
        rng = random.Random(f"{shape} {equal_speeds} {block} {seed}")
        topology = SHAPES[shape]
        if not equal_speeds:
            links = [
                LinkSpec(link.src, link.dst, rng.uniform(1.0, 20.0), rng.uniform(0.0, 1.0), link.kind)
                for link in topology.links
            ]
            topology = Topology(topology.num_gpus, topology.num_vertices, tuple(links), topology.name)
        messages = flow_set(topology, rng)
        ends, network = arrivals(topology, messages)
        assert ends == pytest.approx(NaiveFairNetwork(topology).arrivals(messages), rel=1e-9)
        carried = sum(len(topology.route(message.src, message.dst)) * message.nbytes for message in messages)
        assert sum(link.nbytes for link in network.links) == pytest.approx(carried)
        assert not any(network.prepare([(message.src, message.dst)]).streams for message in messages)


def test_flows_elsewhere_are_left_alone() -> None:
    env = Environment()
    network = FairNetwork(env, full_mesh(4, 2.0, 0.5))
    network.transfer(0, 1, 100.0)
    env.at(3.0, lambda _: network.transfer(2, 3, 1.0))
    env.run(until=10.0)
    (stream,) = network.prepare([(0, 1)]).streams
    assert (stream.since_s, stream.bytes_per_s) == (0.0, 2.0)


@pytest.mark.parametrize("flows", [1, 2, 5])
def test_what_flows_lose_to_each_other_is_put_down_to_the_link_that_limits_them(flows: int) -> None:
    _, network = arrivals(line(B, 2 * B), [Message(0.0, 0, 2, SIZE)] * flows)
    narrow, wide = network.links
    assert narrow.queued_s == pytest.approx(flows * (flows - 1) * SIZE / B, abs=1e-15)
    assert wide.queued_s == 0.0


def test_a_link_is_busy_for_the_bytes_that_have_been_sent() -> None:
    env = Environment()
    network = FairNetwork(env, line(4.0, 2.0))
    network.transfer(0, 2, 10.0)
    network.transfer(0, 1, 12.0)
    env.run(until=2.0)  # both at 2 bytes/s
    first, second = network.links
    assert (first.busy_before(2.0), second.busy_before(2.0)) == (pytest.approx(2.0), pytest.approx(2.0))
    env.run()
    first, second = network.links
    assert (first.busy_before(env.now), second.busy_before(env.now)) == (pytest.approx(5.5), pytest.approx(5.0))


def test_steps_of_a_collective_share_links_with_others() -> None:
    """Two rings through the same switch: each gets half of every link in all of its steps."""
    env = Environment()
    network = FairNetwork(env, single_switch(4, B, L))
    ends = list[float]()
    for _ in range(2):
        schedule = network.schedule([([(i, (i + 1) % 4) for i in range(4)], SIZE, 6, 0.0)])
        schedule.start(lambda _: ends.append(env.now))
    env.run()
    assert ends == [pytest.approx(6 * (2 * SIZE / B + 2 * L))] * 2


def test_nothing_at_all_is_done_at_once_and_nothing_to_send_takes_the_latency() -> None:
    env = Environment(1.0)
    network = FairNetwork(env, line(B, B))
    env.run(network.carry([], 5.0))
    assert env.now == 1.0
    env.run(network.transfer(0, 2, 0.0))
    assert env.now == 1.0 + 2 * L


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.0, 20.0), st.floats(0.1, 50.0)), max_size=20),
    st.lists(st.floats(0.5, 20.0), min_size=8, max_size=8),
)
def test_hypothesis_finds_no_flows_that_end_otherwise(
    drawn: list[tuple[int, int, float, float]], rates: list[float]
) -> None:
    plain = single_switch(4, 1.0, 0.25)
    links = tuple(
        LinkSpec(link.src, link.dst, rate, link.latency_s, link.kind)
        for link, rate in zip(plain.links, rates, strict=True)
    )
    topology = Topology(4, 5, links, "switch")
    messages = [Message(start_s, src, dst, nbytes) for src, dst, start_s, nbytes in drawn if src != dst]
    ends, _ = arrivals(topology, messages)
    assert ends == pytest.approx(NaiveFairNetwork(topology).arrivals(messages), rel=1e-9)
