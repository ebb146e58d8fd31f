"""Store-and-forward against cut-through: theory, published cases, and what transfers wait for."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform.environment import Environment
from simsys.platform.fifo import CutThroughNetwork, FifoNetwork, StoreAndForwardNetwork
from simsys.platform.topology import Topology, ring, single_switch
from tests.helpers.reference import Message, NaiveStoreAndForward
from tests.platform.test_network import MIB, SHAPES, B, L, chain, hops, mixed_speeds, random_messages


def arrivals(network: FifoNetwork, messages: list[Message]) -> list[float]:
    """When each message arrives."""
    ends: dict[int, float] = {}

    def start(index: int, message: Message) -> None:
        event = network.transfer(message.src, message.dst, message.nbytes)
        event.callbacks.append(lambda _: ends.setdefault(index, network.env.now))

    for index, message in enumerate(messages):
        network.env.at(message.start_s, lambda _, index=index, message=message: start(index, message))
    network.env.run()
    return [ends[index] for index in range(len(messages))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_stored_transfers_arrive_as_in_the_process_per_hop_model(shape: str, seed: int) -> None:
    rng = random.Random(f"{shape} {seed}")
    topology = mixed_speeds(SHAPES[shape], rng)
    messages = random_messages(topology, rng, 60)
    ends = arrivals(StoreAndForwardNetwork(Environment(), topology), messages)
    assert ends == NaiveStoreAndForward(topology).arrivals(messages)


@given(hops, st.floats(1.0, 1e4))
def test_an_undisturbed_stored_transfer_takes_latency_and_serialisation_of_every_link(
    hops: list[tuple[float, float]], nbytes: float
) -> None:
    network = StoreAndForwardNetwork(Environment(), chain(*zip(*hops, strict=True)))
    (end_s,) = arrivals(network, [Message(0.0, 0, 1, nbytes)])
    assert end_s == pytest.approx(sum(latency_s + nbytes / rate for rate, latency_s in hops))
    latency_s, bytes_per_s = network.idle_path([(0, 1)])
    assert latency_s + nbytes / bytes_per_s == pytest.approx(end_s)


@pytest.mark.parametrize(
    ("kind", "expected_s"),
    [(CutThroughNetwork, 14 * (2**30 / 8 / B + 2 * L)), (StoreAndForwardNetwork, 14 * (2 * 2**30 / 8 / B + 2 * L))],
)
def test_a_ring_through_a_switch_costs_twice_if_blocks_are_stored(kind: type[FifoNetwork], expected_s: float) -> None:
    network = kind(Environment(), single_switch(8, B, L))
    network.schedule([([(i, (i + 1) % 8) for i in range(8)], 2**30 / 8, 14, 0.0)]).start(lambda _: None)
    network.env.run()
    assert network.env.now == pytest.approx(expected_s, rel=1e-12)
    if kind is CutThroughNetwork:
        assert network.env.now == pytest.approx(37.594964e-3, abs=5e-10)  # as in fluid simulation


@pytest.mark.parametrize("kind", [CutThroughNetwork, StoreAndForwardNetwork])
@pytest.mark.parametrize(
    ("topology", "pairs"),
    [
        (single_switch(6, 3.0, 0.25), [(0, 1), (0, 2), (0, 3)]),  # share the first link
        (single_switch(6, 3.0, 0.25), [(1, 0), (2, 0), (3, 0), (4, 0)]),  # share the last link
        (ring(6, 3.0, 0.25), [(0, 2), (0, 2), (0, 2)]),  # share both
        (ring(6, 3.0, 0.25), [(0, 3), (3, 0)]),  # share none
    ],
)
def test_an_idle_path_is_the_slowest_of_transfers_that_start_together(
    kind: type[FifoNetwork], topology: Topology, pairs: list[tuple[int, int]]
) -> None:
    network = kind(Environment(), topology)
    latency_s, bytes_per_s = network.idle_path(pairs)
    ends = arrivals(network, [Message(0.0, *pair, 12.0) for pair in pairs])
    assert max(ends) == pytest.approx(latency_s + 12.0 / bytes_per_s, rel=1e-12)


@pytest.mark.parametrize("kind", [CutThroughNetwork, StoreAndForwardNetwork])
@pytest.mark.parametrize("flows", [1, 2, 5])
def test_what_transfers_wait_for_is_put_down_to_the_link(kind: type[FifoNetwork], flows: int) -> None:
    network = kind(Environment(), chain([B, 2 * B], [L, L]))
    arrivals(network, [Message(0.0, 0, 1, 64 * MIB)] * flows)
    each_s = 64 * MIB / B
    narrow, wide = network.links
    assert narrow.queued_s == pytest.approx(each_s * flows * (flows - 1) / 2)
    assert wide.queued_s == 0.0
    assert narrow.busy_s == pytest.approx(flows * each_s)


@pytest.mark.parametrize("kind", [CutThroughNetwork, StoreAndForwardNetwork])
def test_both_take_as_long_over_a_single_link(kind: type[FifoNetwork]) -> None:
    messages = [Message(start_s, 0, 1, 3.0) for start_s in (0.0, 0.1, 5.0)]
    assert arrivals(kind(Environment(), chain([2.0], [0.5])), messages) == [2.0, 3.5, 7.0]
