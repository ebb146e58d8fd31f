"""Links whose bandwidth and latency change at known times, by every model of contention."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from simsys.platform.contention import NETWORKS
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.network import Network
from simsys.platform.timeline import Period, Timeline, timeline
from simsys.platform.topology import LinkSpec, Topology, full_mesh, ring
from tests.helpers.reference import Message, NaiveFairNetwork, Timelines
from tests.helpers.thorough import cases
from tests.platform.test_fair import SHAPES as FAIR_SHAPES
from tests.platform.test_fair import flow_set
from tests.platform.test_uncontended import (
    MODELS,
    SHAPES,
    assert_as_naive,
    assert_equal_links,
    carried_out,
    circle,
    random_plan,
    with_speeds_of_their_own,
)


def weakened(
    link: LinkSpec, periods: Sequence[Period], shares: Sequence[float], slower: float = 1.0
) -> Timeline[LinkSpec]:
    """A link that has a share of its bandwidth left in each of some periods."""

    def at(inside: tuple[int, ...]) -> LinkSpec:
        bytes_per_s, latency_s = link.bytes_per_s, link.latency_s
        for place in inside:
            bytes_per_s, latency_s = bytes_per_s * shares[place], latency_s * slower
        return LinkSpec(link.src, link.dst, bytes_per_s, latency_s, link.kind)

    return timeline(periods, at)


def random_changes(topology: Topology, rng: random.Random, until_s: float) -> dict[int, Timeline[LinkSpec]]:
    """Some links that change now and then, several of them at the same moments."""
    moments = sorted(rng.uniform(0.1, until_s) for _ in range(rng.randint(2, 6)))
    found = {}
    for index in rng.sample(range(len(topology.links)), rng.randint(1, len(topology.links))):
        start_s, end_s = sorted(rng.sample(moments, 2))
        periods = [Period(start_s, end_s)] + ([Period(rng.choice(moments))] if rng.random() < 0.3 else [])
        shares = [rng.uniform(0.05, 0.9), rng.uniform(0.3, 2.0)]
        found[index] = weakened(topology.links[index], periods, shares, rng.choice((1.0, 3.0)))
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_collectives_on_links_that_change_end_as_if_every_step_were_simulated(model: str, shape: str) -> None:
    """Quiet, step by step, and in plain SimPy."""
    quiet_class, eager_class, naive_class = MODELS[model]
    saved = 0
    for seed in range(cases(60, 15 if model == "fair" else 12)):
        rng = random.Random(f"{shape} {seed} changing")
        topology = with_speeds_of_their_own(SHAPES[shape], rng)
        plan, changes = random_plan(topology, rng), random_changes(topology, rng, 120.0)
        quiet, eager = (kind(Environment(), topology, changes) for kind in (quiet_class, eager_class))
        ends = carried_out(eager, plan)
        assert_as_naive(ends, naive_class(topology, changes).arrivals(plan), model)
        assert carried_out(quiet, plan) == pytest.approx(ends, rel=1e-12)
        assert_equal_links(quiet, eager)
        saved += eager.env.events_scheduled - quiet.env.events_scheduled
    assert saved > 0


def arrivals(network: Network[Any], messages: Iterable[Message]) -> list[float]:
    env, ends = network.env, dict[int, float]()

    def start(index: int, message: Message) -> None:
        event = network.transfer(message.src, message.dst, message.nbytes)
        event.callbacks.append(lambda _: ends.setdefault(index, env.now))

    for index, message in enumerate(messages):
        env.at(message.start_s, lambda _, index=index, message=message: start(index, message))
    env.run()
    return [ends[index] for index in sorted(ends)]


@pytest.mark.parametrize("shape", FAIR_SHAPES)
@pytest.mark.parametrize("block", range(2))
def test_fair_shares_follow_links_that_change(shape: str, block: int) -> None:
    """Against rates that are found anew at every arrival, departure and change."""
    for seed in range(cases(60, 8)):
        rng = random.Random(f"{shape} {block} {seed} changing")
        topology = with_speeds_of_their_own(FAIR_SHAPES[shape], rng)
        messages, changes = flow_set(topology, rng), random_changes(topology, rng, 60.0)
        expected = NaiveFairNetwork(topology, changes).arrivals(messages)
        assert arrivals(FairNetwork(Environment(), topology, changes), messages) == pytest.approx(expected, rel=1e-9)


def half_speed(start_s: float, end_s: float = float("inf")) -> tuple[Topology, Timelines]:
    """Two GPUs, 4 bytes/s, of which half is left for some time."""
    topology = full_mesh(2, 4.0, 0.5)
    return topology, {0: weakened(topology.links[0], [Period(start_s, end_s)], [0.5])}


@pytest.mark.parametrize(
    ("model", "expected_s"),
    [
        (("fifo", "cut_through"), [10.5, 30.5]),  # the first keeps its bandwidth
        (("fifo", "store_and_forward"), [10.5, 30.5]),
        (("fair", "cut_through"), [20.5 + 15.0 - 3.75, 30.5]),
    ],
    ids=str,
)
def test_a_transfer_under_way_keeps_its_bandwidth_in_a_queue_and_not_in_a_fair_share(
    model: tuple[str, str], expected_s: list[float]
) -> None:
    """40 bytes each, the second at 10 s; the link is halved from 5 s on."""
    network = NETWORKS[model](Environment(), *half_speed(5.0))
    found = arrivals(network, [Message(0.0, 0, 1, 40.0), Message(10.0, 0, 1, 40.0)])
    if model[0] == "fair":
        # 20 bytes in 5 s, 10 alone until 10 s, then 1 byte/s each: the last 10 until 20 s; the other has 30 left.
        expected_s = [20.5, 35.5]
    assert found == pytest.approx(expected_s, rel=1e-6)


@pytest.mark.parametrize("model", NETWORKS, ids=str)
def test_nothing_happens_for_changes_after_the_last_transfer(model: tuple[str, str]) -> None:
    network = NETWORKS[model](Environment(), *half_speed(1e6))
    assert arrivals(network, [Message(0.0, 0, 1, 40.0)]) == [10.5]
    assert network.env.now == 10.5


@pytest.mark.parametrize("model", NETWORKS, ids=str)
def test_a_link_that_changes_counts_what_it_needed_at_each_rate(model: tuple[str, str]) -> None:
    network = NETWORKS[model](Environment(), *half_speed(20.0, 60.0))
    arrivals(network, [Message(0.0, 0, 1, 40.0), Message(30.0, 0, 1, 40.0), Message(70.0, 0, 1, 40.0)])
    assert network.links[0].busy_before(network.env.now) == pytest.approx(10.0 + 20.0 + 10.0)
    assert network.links[0].nbytes == 120.0


def test_a_collective_is_quiet_before_and_after_a_change() -> None:
    topology = ring(8, 2.0, 0.5)
    changes = {3: weakened(topology.links[3], [Period(700.0, 1400.0)], [0.25])}
    network = CutThroughNetwork(Environment(), topology, changes)
    network.schedule(circle(8, 3.0, 1000)).start(lambda _: None)
    network.env.run()
    assert network.env.events_scheduled < 20
    slow_steps = 108  # of 6.5 s in place of 2 s; the first begins at 700 s, the last before 1,400 s
    assert network.env.now == pytest.approx(1000 * 2.0 + slow_steps * 4.5)


@pytest.mark.parametrize("model", NETWORKS, ids=str)
def test_a_steady_network_is_as_the_other_one_is_at_a_time(model: tuple[str, str]) -> None:
    network = NETWORKS[model](Environment(), *half_speed(5.0, 9.0))
    paths = [network.steady(time_s).idle_path([(0, 1)]) for time_s in (0.0, 4.9, 5.0, 8.0, 9.5)]
    assert paths == [(0.5, 4.0), (0.5, 4.0), (0.5, 2.0), (0.5, 2.0), (0.5, 4.0)]
    assert network.steady(1.0) is network
