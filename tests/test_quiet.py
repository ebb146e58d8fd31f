"""Collectives that nobody disturbs take one event; others go on as if each of their steps had been simulated."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from reference import Message, NaiveCutThrough, NaiveNetwork, NaiveStoreAndForward, Rounds

from simsys.platform.environment import Environment
from simsys.platform.fifo import CutThroughNetwork, FifoNetwork, StoreAndForwardNetwork
from simsys.platform.flight import CalendarLink
from simsys.platform.network import Pairs
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.schedule import Schedule
from simsys.platform.topology import LinkSpec, Topology, binary_tree, full_mesh, ring, single_switch, torus_2d

Plan = Sequence[Message | Rounds]


class StepByStep:
    """A network whose collectives are never quiet."""

    def schedule(self: FifoNetwork, steps: Iterable[tuple[Pairs, float, int]]) -> Schedule[CalendarLink]:
        return Schedule(self.env, self._steps(steps), self.transfer_all)


class EagerCutThrough(StepByStep, CutThroughNetwork):
    """Cut-through, step by step."""


class EagerStoreAndForward(StepByStep, StoreAndForwardNetwork):
    """Store-and-forward, step by step."""


MODELS: dict[str, tuple[type[FifoNetwork], type[FifoNetwork], type[NaiveNetwork]]] = {
    "cut-through": (CutThroughNetwork, EagerCutThrough, NaiveCutThrough),
    "store-and-forward": (StoreAndForwardNetwork, EagerStoreAndForward, NaiveStoreAndForward),
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


def carried_out(network: FifoNetwork, plan: Plan) -> list[float]:
    """When each entry of a plan has arrived. Equal collectives share a schedule, as those of a group do."""
    env, ends = network.env, dict[int, float]()
    schedules: dict[int, Schedule[CalendarLink]] = {}

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


def assert_equal_links(one: FifoNetwork, other: FifoNetwork) -> None:
    for a, b in zip(one.links, other.links, strict=True):
        assert (a.nbytes, a.busy_s, a.queued_s) == pytest.approx((b.nbytes, b.busy_s, b.queued_s), rel=1e-9, abs=1e-9)


def compare(topology: Topology, plan: Plan, model: str, rel: float = 1e-12) -> int:
    """Assert that quiet, eager and naive agree; return how many events quietness saved."""
    quiet_class, eager_class, naive_class = MODELS[model]
    quiet, eager = quiet_class(Environment(), topology), eager_class(Environment(), topology)
    ends = carried_out(eager, plan)
    assert ends == naive_class(topology).arrivals(plan)
    assert carried_out(quiet, plan) == pytest.approx(ends, rel=rel)
    assert_equal_links(quiet, eager)
    return eager.env.events_scheduled - quiet.env.events_scheduled


@pytest.mark.parametrize("seed", range(170))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_contended_plans_end_as_if_every_step_were_simulated(model: str, shape: str, seed: int) -> None:
    rng = random.Random(f"{shape} {seed}")
    topology = with_speeds_of_their_own(SHAPES[shape], rng)
    compare(topology, random_plan(topology, rng), model)
