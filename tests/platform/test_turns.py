"""Requests of SimPy processes beside tasks, transfers and collectives: as with a `simpy.Resource` for every server."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
import simpy

from simsys.errors import UsageError
from simsys.platform.calendar_link import CutThroughLink, Parallel
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork, FifoNetwork, StoreAndForwardNetwork
from simsys.platform.flight import Flight
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.platform import Platform
from simsys.platform.topology import LinkSpec, Topology, full_mesh, ring
from simsys.platform.turns import Sharing, TurnServer
from tests.helpers.reference import (
    Message,
    NaiveCutThrough,
    NaiveNetwork,
    NaiveStoreAndForward,
    Rounds,
    Visit,
    queue_ends,
)
from tests.helpers.thorough import cases
from tests.helpers.toys import BANDWIDTH, LATENCY, TOY
from tests.platform.test_uncontended import SHAPES, random_plan, with_speeds_of_their_own

MODELS: dict[str, tuple[type[FifoNetwork], type[NaiveNetwork]]] = {
    "cut-through": (CutThroughNetwork, NaiveCutThrough),
    "store-and-forward": (StoreAndForwardNetwork, NaiveStoreAndForward),
}
ENVIRONMENTS = {"plain": simpy.Environment, "simsys": Environment}
Plan = Sequence[Message | Rounds | Visit]


def platform_of(topology: Topology, network: type[FifoNetwork] = CutThroughNetwork, env: Any = None) -> Platform:
    return Platform([TOY] * topology.num_gpus, topology, env or simpy.Environment(), network)


def visits(servers: int, rng: random.Random, most: int = 6, longest_s: float = 20.0) -> list[Visit]:
    return [
        Visit(rng.uniform(0.0, 80.0), rng.randrange(servers), rng.uniform(0.0, longest_s))
        for _ in range(rng.randint(1, most))
    ]


def visit(env: simpy.Environment, server: TurnServer, seconds: float) -> Iterator[Any]:
    """What a process of a user's own does, word for word as with a `simpy.Resource`."""
    with server.request() as turn:
        yield turn
        yield env.timeout(seconds)


def carried_out(platform: Platform, plan: Plan) -> list[float]:
    """When each entry of a plan has ended. Equal collectives share a schedule, as those of a group do."""
    env, network, ends = platform.env, platform.network, dict[int, float]()
    schedules: dict[int, LinkSchedule[Any]] = {}

    def entry_of(index: int, entry: Message | Rounds | Visit) -> Iterator[Any]:
        yield env.timeout(entry.start_s)
        if isinstance(entry, Visit):
            yield from visit(env, network.link(entry.server), entry.seconds)
        elif isinstance(entry, Message):
            yield platform.submit_network_transfer_task(entry.src, entry.dst, entry.nbytes)
        else:
            done, key = env.event(), id(entry.steps)
            schedules.setdefault(key, network.schedule(entry.steps)).start(lambda _: done.succeed())
            yield done
        ends[index] = env.now

    for index, entry in enumerate(plan):
        env.process(entry_of(index, entry))
    env.run()
    return [ends[index] for index in range(len(plan))]


@pytest.mark.parametrize("clock", ENVIRONMENTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_links_serve_requests_transfers_and_collectives_as_resources_do(shape: str, model: str, clock: str) -> None:
    network, naive = MODELS[model]
    for seed in range(cases(100, 25)):  # 2,400 plans in all
        rng = random.Random(f"{shape} {model} {clock} {seed}")
        topology = with_speeds_of_their_own(SHAPES[shape], rng)
        plan = [*random_plan(topology, rng), *visits(len(topology.links), rng)]
        platform = platform_of(topology, network, ENVIRONMENTS[clock]())
        assert carried_out(platform, plan) == pytest.approx(naive(topology).arrivals(plan), rel=1e-9), seed
        kept_s = sum(entry.seconds for entry in plan if isinstance(entry, Visit))
        busy_s = sum(link.busy_s - link.nbytes / link.bytes_per_s for link in platform.network.links)
        assert busy_s == pytest.approx(kept_s, abs=1e-6), "links are busy with what they carry and with requests"


def gpu_ends(env: simpy.Environment, plan: Sequence[tuple[float, float]], tasks: Sequence[bool]) -> list[float]:
    """When services (arrival, duration) of one GPU end, some of which are tasks and the others requests."""
    platform, ends = platform_of(ring(2, BANDWIDTH, LATENCY), env=env), dict[int, float]()

    def customer(index: int, arrival_s: float, service_s: float) -> Iterator[Any]:
        yield env.timeout(arrival_s)
        if tasks[index]:
            yield platform.submit_computation_task(0, seconds=lambda _: service_s)
        else:
            yield from visit(env, platform.devices[0], service_s)
        ends[index] = env.now

    for index, (arrival_s, service_s) in enumerate(plan):
        env.process(customer(index, arrival_s, service_s))
    env.run()
    assert platform.devices[0].busy_s == pytest.approx(sum(service_s for _, service_s in plan))
    return [ends[index] for index in range(len(plan))]


@pytest.mark.parametrize("clock", ENVIRONMENTS)
def test_gpus_serve_requests_and_tasks_as_resources_do(clock: str) -> None:
    for seed in range(cases(2000, 16)):
        rng = random.Random(seed)
        plan = [(rng.uniform(0.0, 30.0), rng.uniform(0.0, 4.0)) for _ in range(rng.randint(1, 20))]
        if rng.random() < 0.3:  # ties: who queues first at a moment is served first
            plan = [(float(round(arrival_s)), float(round(service_s))) for arrival_s, service_s in plan]
        plan.sort(key=lambda entry: entry[0])
        tasks = [rng.random() < 0.5 for _ in plan]
        ends = gpu_ends(ENVIRONMENTS[clock](), plan, tasks)
        assert ends == pytest.approx(queue_ends(plan), rel=1e-12), seed


def test_a_request_waits_for_a_collective_under_way_and_holds_up_the_next_steps() -> None:
    platform = platform_of(ring(3, 1.0, 0.0))
    env, done = platform.env, []
    around = [(gpu, (gpu + 1) % 3) for gpu in range(3)]
    platform.network.schedule([(around, 2.0, 3, 0.0)]).start(lambda _: done.append(env.now))
    (link,) = platform.get_links(0, 1)

    def own() -> Iterator[Any]:
        yield env.timeout(1.0)
        with link.request() as turn:
            yield turn
            assert env.now == 2.0, "the first step has the link until then"
            yield env.timeout(5.0)

    env.process(own())
    env.run()
    assert done == [7.0 + 2 * 2.0], "the second step waits for the request on one link"
    assert link.busy_s == 3 * 2.0 + 5.0


def test_a_share_of_parallel_links_waits_for_a_request_of_one_of_them() -> None:
    env = simpy.Environment()
    pair = [CutThroughLink(LinkSpec(0, 1, 1.0, 0.5, "nvlink")) for _ in range(2)]
    for link in pair:
        link.sharing = Sharing(env)
    env.process(visit(env, pair[0], 3.0))
    env.run(1.0)
    flight = Flight(env, 8.0)
    flight.start([(Parallel([(pair[0], 0.25), (pair[1], 0.75)]),)])
    env.run(flight.event)
    assert env.now == max(3.0 + 2.0, 1.0 + 6.0) + 0.5
    assert [link.free_at_s for link in pair] == [5.0, 7.0]


def test_who_leaves_the_queue_is_passed_over() -> None:
    platform = platform_of(full_mesh(2, BANDWIDTH, LATENCY))
    env, gpu, log = platform.env, platform.devices[0], []

    def patient(name: str, arrival_s: float, patience_s: float) -> Iterator[Any]:
        yield env.timeout(arrival_s)
        with gpu.request() as turn:
            found = yield turn | env.timeout(patience_s)
            log.append((name, env.now, turn in found))
            if turn in found:
                yield env.timeout(2.0)

    def task() -> Iterator[Any]:
        yield env.timeout(2.0)
        yield platform.submit_computation_task(0, seconds=lambda start_s: start_s)
        log.append(("task", env.now, True))

    platform.submit_computation_task(0, seconds=lambda _: 4.0)
    env.process(patient("leaves first", 1.0, 1.5))
    env.process(task())
    env.process(patient("leaves", 3.0, 0.5))
    env.process(patient("stays", 3.5, 9.0))
    env.run()
    assert log == [("leaves first", 2.5, False), ("leaves", 3.5, False), ("task", 8.0, True), ("stays", 8.0, True)]
    assert gpu.busy_s == 4.0 + 4.0 + 2.0


def test_a_turn_is_given_back_once_and_an_interrupt_gives_it_back_too() -> None:
    platform = platform_of(full_mesh(2, BANDWIDTH, LATENCY))
    env, gpu = platform.env, platform.devices[0]

    def interrupted() -> Iterator[Any]:
        with suppress(simpy.Interrupt):
            yield from visit(env, gpu, 10.0)

    process = env.process(interrupted())
    env.run(3.0)
    assert platform.utilization()[0] == 1.0, "a turn counts as busy while it lasts"
    process.interrupt()
    turn = gpu.request()
    env.run(turn)
    gpu.release(turn)
    gpu.release(turn)
    turn.cancel()
    assert env.now == 3.0
    assert env.run(platform.submit_computation_task(0, seconds=lambda _: 1.0)) is None
    assert env.now == 4.0
    assert gpu.busy_s == 4.0


def test_links_that_share_bandwidth_have_no_turns() -> None:
    platform = Platform([TOY] * 2, full_mesh(2, BANDWIDTH, LATENCY), simpy.Environment(), FairNetwork)
    with pytest.raises(UsageError, match="share their bandwidth and have no turns"):
        platform.get_links(0, 1)[0].request()


@pytest.mark.parametrize("network", [CutThroughNetwork, StoreAndForwardNetwork, FairNetwork])
def test_a_plain_environment_serves_as_well_as_that_of_simsys(network: Any) -> None:
    ends = []
    for env in (simpy.Environment(), Environment()):
        rng = random.Random("plain")
        topology = with_speeds_of_their_own(SHAPES["nodes"], rng)
        platform = Platform([TOY] * topology.num_gpus, topology, env, network)
        ends.append(carried_out(platform, random_plan(topology, rng)))
    assert ends[0] == ends[1]
