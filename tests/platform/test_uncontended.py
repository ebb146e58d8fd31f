"""Collectives that nobody disturbs take one event; others go on as if each of their steps had been simulated."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork, StoreAndForwardNetwork
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.network import LockStep, Network
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import LinkSpec, Topology, binary_tree, full_mesh, ring, single_switch, torus_2d
from simsys.platform.uncontended import UncontendedRun, UncontendedSchedule
from tests.helpers.reference import (
    Message,
    NaiveCutThrough,
    NaiveFairNetwork,
    NaiveNetwork,
    NaiveStoreAndForward,
    Rounds,
)
from tests.helpers.thorough import cases

Plan = Sequence[Message | Rounds]


class StepByStep:
    """A network whose collectives are never one event."""

    def schedule(self: Network[Any, Any], steps: Iterable[LockStep]) -> LinkSchedule[Any]:
        return LinkSchedule(self.env, self._steps(steps), self.begin)


class EagerCutThrough(StepByStep, CutThroughNetwork):
    """Cut-through, step by step."""


class EagerStoreAndForward(StepByStep, StoreAndForwardNetwork):
    """Store-and-forward, step by step."""


class EagerFair(StepByStep, FairNetwork):
    """Fair sharing, step by step."""


Naive = type[NaiveNetwork] | type[NaiveFairNetwork]
MODELS: dict[str, tuple[type[Network[Any, Any]], type[Network[Any, Any]], Naive]] = {
    "cut-through": (CutThroughNetwork, EagerCutThrough, NaiveCutThrough),
    "store-and-forward": (StoreAndForwardNetwork, EagerStoreAndForward, NaiveStoreAndForward),
    "fair": (FairNetwork, EagerFair, NaiveFairNetwork),
}
NODES = nodes_on_fabric(3, 4, NodeInside("nvswitch", 9.0, 0.1), Nics(2, 2.0, 0.1), Fabric("switch", 4.0, 0.2))
SHAPES = {
    "mesh": full_mesh(6, 3.0, 0.2),
    "ring": ring(7, 3.0, 0.2),
    "switch": single_switch(6, 3.0, 0.2),
    "tree": binary_tree(7, 3.0, 0.2),
    "torus": torus_2d(9, 3.0, 0.2),
    "nodes": NODES,
}


def with_speeds_of_their_own(topology: Topology, rng: random.Random) -> Topology:
    links = tuple(
        LinkSpec(link.src, link.dst, rng.uniform(1.0, 20.0), rng.uniform(0.01, 1.0), link.kind)
        for link in topology.links
    )
    return Topology(topology.num_gpus, topology.num_vertices, links, topology.name)


def random_rounds(topology: Topology, rng: random.Random, groups: Sequence[Sequence[int]]) -> Rounds:
    """A collective of one of the groups: mostly a ring, sometimes other steps."""
    ranks = rng.choice(groups)
    size, nbytes = len(ranks), rng.uniform(1.0, 20.0)
    around = [(ranks[i], ranks[(i + 1) % size]) for i in range(size)]
    kind = rng.random()
    if kind < 0.6:
        steps = [(around, nbytes, rng.randint(1, 8))]
    elif kind < 0.8:
        steps = [([(ranks[0], other)], nbytes, 1) for other in ranks[1:]] + [(around, nbytes / 2, size)]
    else:
        steps = [([(ranks[i], ranks[(i + shift) % size]) for i in range(size)], nbytes, 1) for shift in range(1, size)]
    longest_s = rng.choice((0.0, 0.0, 2.0))
    return Rounds(rng.uniform(0.0, 60.0), [(*step, rng.uniform(0.0, longest_s)) for step in steps])


def random_plan(topology: Topology, rng: random.Random) -> list[Message | Rounds]:
    """Collectives of groups that overlap or are apart, some of them repeated, and messages in between."""
    gpus = range(topology.num_gpus)
    groups = [rng.sample(gpus, rng.randint(2, topology.num_gpus)) for _ in range(rng.randint(1, 3))]
    plan: list[Message | Rounds] = [random_rounds(topology, rng, groups) for _ in range(rng.randint(1, 6))]
    again = [Rounds(rng.uniform(0.0, 100.0), entry.steps) for entry in plan if isinstance(entry, Rounds)]
    plan += rng.sample(again, rng.randint(0, len(again)))
    for _ in range(rng.choice((0, 1, 3, 8))):
        src, dst = rng.sample(gpus, 2)
        plan.append(Message(rng.uniform(0.0, 80.0), src, dst, rng.uniform(1.0, 30.0)))
    return plan


def carried_out(network: Network[Any, Any], plan: Plan) -> list[float]:
    """When each entry of a plan has arrived. Equal collectives share a schedule, as those of a group do."""
    env, ends = network.env, dict[int, float]()
    schedules: dict[int, LinkSchedule[Any]] = {}

    def start(index: int, entry: Message | Rounds) -> None:
        if isinstance(entry, Message):
            event = network.transfer(entry.src, entry.dst, entry.nbytes)
            event.callbacks.append(lambda _: ends.setdefault(index, env.now))
        else:
            key = id(entry.steps)
            schedules.setdefault(key, network.schedule(entry.steps)).start(lambda _: ends.setdefault(index, env.now))

    for index, entry in enumerate(plan):
        env.at(entry.start_s, lambda _, index=index, entry=entry: start(index, entry))
    env.run()
    return [ends[index] for index in range(len(plan))]


def assert_equal_links(one: Network[Any, Any], other: Network[Any, Any]) -> None:
    figures = [
        [each for link in net.links for each in (link.nbytes, link.busy_s, link.queued_s)] for net in (one, other)
    ]
    assert figures[0] == pytest.approx(figures[1], rel=1e-9, abs=1e-9)


def assert_as_naive(ends: Sequence[float], naive: Sequence[float], model: str) -> None:
    """Calendars give the same floats as resources; fair rates are found in another order, so that they are rounded."""
    assert ends == (pytest.approx(naive, rel=1e-9) if model == "fair" else naive)


def compare(topology: Topology, plan: Plan, model: str, rel: float = 1e-12) -> int:
    """Assert that quiet, eager and naive agree; return how many events quietness saved."""
    quiet_class, eager_class, naive_class = MODELS[model]
    quiet, eager = quiet_class(Environment(), topology), eager_class(Environment(), topology)
    ends = carried_out(eager, plan)
    assert_as_naive(ends, naive_class(topology).arrivals(plan), model)
    assert carried_out(quiet, plan) == pytest.approx(ends, rel=rel)
    assert_equal_links(quiet, eager)
    return eager.env.events_scheduled - quiet.env.events_scheduled


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("block", range(4))
def test_contended_plans_end_as_if_every_step_were_simulated(model: str, shape: str, block: int) -> None:
    saved = 0
    for seed in range(cases(45, 20 if model == "fair" else 12)):
        rng = random.Random(f"{shape} {block} {seed}")
        topology = with_speeds_of_their_own(SHAPES[shape], rng)
        saved += compare(topology, random_plan(topology, rng), model)
    assert saved > 0


@pytest.mark.parametrize("model", MODELS)
def test_collectives_that_start_together_on_equal_links_take_turns_as_if_every_step_were_simulated(model: str) -> None:
    for seed in range(cases(60)):
        rng = random.Random(seed)
        plan = [replace(entry, start_s=0.0) for entry in random_plan(SHAPES["switch"], rng)]
        quiet, eager = (kind(Environment(), SHAPES["switch"]) for kind in MODELS[model][:2])
        assert carried_out(quiet, plan) == pytest.approx(carried_out(eager, plan), rel=1e-12)


def circle(size: int, nbytes: float, repeat: int) -> list[LockStep]:
    return [([(i, (i + 1) % size) for i in range(size)], nbytes, repeat, 0.0)]


@pytest.mark.parametrize("size", [2, 8, 128])
@pytest.mark.parametrize("make", [ring, single_switch])
def test_a_quiet_collective_is_one_event_whatever_the_number_of_ranks_and_steps(make: Any, size: int) -> None:
    network = CutThroughNetwork(Environment(), make(size, 50e9, 5e-7))
    ends = list[float]()
    schedule = network.schedule(circle(size, 1e6, 2 * (size - 1)))

    def again(_: object) -> None:
        ends.append(network.env.now)
        if len(ends) < 10:
            schedule.start(again)

    schedule.start(again)
    network.env.run()
    assert network.env.events_scheduled == 10
    hops = 1 if make is ring else 2
    each = 2 * (size - 1) * (1e6 / 50e9 + hops * 5e-7)
    assert ends == pytest.approx([each * (index + 1) for index in range(10)], rel=1e-12)
    assert sum(link.nbytes for link in network.links) == pytest.approx(10 * 2 * (size - 1) * size * hops * 1e6)


def test_steps_that_are_all_different_are_simulated_once_and_are_quiet_from_then_on() -> None:
    network = CutThroughNetwork(Environment(), full_mesh(8, 2.0, 0.5))
    schedule = network.schedule([([(i, (i + shift) % 8) for i in range(8)], 4.0, 1, 0.0) for shift in range(1, 8)])
    events = []
    for _ in range(3):
        before = network.env.events_scheduled
        schedule.start(lambda _: None)
        network.env.run()
        events.append(network.env.events_scheduled - before)
    assert events == [7, 1, 1]
    assert network.env.now == pytest.approx(3 * 7 * 2.5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stop_s", [0.15, 2.5, 17.3, 31.0])
def test_looking_at_the_links_in_between_shows_them_as_they_are(model: str, stop_s: float) -> None:
    seen = []
    for kind in MODELS[model][:2]:
        network = kind(Environment(), NODES)
        network.schedule(circle(12, 3.0, 6)).start(lambda _: None)
        network.env.run(until=stop_s)
        busy = [getattr(link, "free_at_s", 0.0) > stop_s for link in network.links]
        seen.append(
            [(link.nbytes, link.busy_before(stop_s), each) for link, each in zip(network.links, busy, strict=True)]
        )
        network.env.run()
        seen.append([network.env.now])
    assert seen[0] == [tuple(map(pytest.approx, link)) for link in seen[2]]
    assert seen[1] == pytest.approx(seen[3])


@pytest.mark.parametrize("model", MODELS)
def test_collectives_that_follow_one_another_are_disturbed_as_if_every_step_were_simulated(model: str) -> None:
    """Each is started at the end of the one before, on links that are held in between, or not any more."""
    ends_of: list[list[float]] = []
    for kind in MODELS[model][:2]:
        network, rng = kind(Environment(), SHAPES["switch"]), random.Random(7)
        first, other = network.schedule(circle(6, 3.0, 5)), network.schedule(circle(4, 2.0, 3))
        ends: list[float] = []

        def again(_: object, network: Any = network, ends: Any = ends, turns: Any = (first, first, other)) -> None:
            ends.append(network.env.now)
            if len(ends) < 200:
                turns[len(ends) % 3].start(again)

        first.start(again)
        for _ in range(40):
            src, dst = rng.sample(range(6), 2)
            pair = src, dst, rng.uniform(0.1, 5.0)
            network.env.at(rng.uniform(0.0, 2000.0), lambda _, network=network, pair=pair: network.transfer(*pair))
        network.env.run()
        ends_of.append([*ends, *(link.busy_s for link in network.links), *(link.nbytes for link in network.links)])
    assert ends_of[0] == pytest.approx(ends_of[1], rel=1e-11)


def test_a_message_elsewhere_does_not_disturb() -> None:
    network = CutThroughNetwork(Environment(), full_mesh(6, 2.0, 0.5))
    network.schedule(circle(4, 3.0, 6)).start(lambda _: None)
    network.env.at(1.0, lambda _: network.transfer(4, 5, 7.0))
    network.env.run()
    assert network.env.events_scheduled == 3  # the collective, the moment of the message, its arrival


def test_a_collective_is_quiet_again_when_who_came_in_between_has_gone() -> None:
    events = []
    for kind in (CutThroughNetwork, EagerCutThrough):
        network = kind(Environment(), ring(8, 2.0, 0.5))
        network.schedule(circle(8, 3.0, 1000)).start(lambda _: None)
        network.env.at(100.3, lambda _, network=network: network.transfer(2, 3, 7.0))
        network.env.run()
        events.append(network.env.events_scheduled)
    assert events[0] < 20
    assert events[1] > 1000


def test_collectives_that_go_on_meeting_do_not_spend_their_time_on_claims() -> None:
    """Every interruption doubles the patience, so that there are few of them."""
    network = CutThroughNetwork(Environment(), ring(8, 2.0, 0.5))
    first, second = network.schedule(circle(8, 3.0, 2000)), network.schedule([([(0, 1)], 0.5, 1, 0.0)])
    ended = list[float]()
    first.start(lambda _: ended.append(network.env.now))

    def disturb(_: object) -> None:
        if not ended:
            network.env.at(network.env.now + 1.7, lambda _: second.start(disturb))

    disturb(None)
    interruptions = 0
    interrupt = UncontendedSchedule.interrupt

    def counted(self: UncontendedSchedule, run: UncontendedRun) -> None:
        nonlocal interruptions
        interruptions += self is first
        interrupt(self, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UncontendedSchedule, "interrupt", counted)
        network.env.run()
    assert 0 < interruptions <= 10
