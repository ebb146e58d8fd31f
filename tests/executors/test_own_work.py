"""Executors beside processes that request GPUs and links: times are those of a naive simulation, at both levels."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import simpy

from simsys.collectives.choose import named
from simsys.errors import UsageError
from simsys.executors import LEVELS, Combination, Executor, Links, combination
from simsys.executors.execution_model import ExecutionModel
from simsys.model.work import Precision
from simsys.ops import CollectiveKind
from simsys.parallel.layout import Layout
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.platform import Platform
from simsys.platform.topology import Topology, full_mesh, ring, single_switch
from simsys.probes import Probes
from simsys.rank import Rank
from tests.helpers.reference import NaiveCutThrough, Visit
from tests.helpers.thorough import cases
from tests.helpers.toys import BANDWIDTH, LATENCY, TOY, Log, work_of
from tests.platform.test_turns import visit, visits
from tests.platform.test_uncontended import with_speeds_of_their_own

Submit = Callable[[int, float], simpy.Event]
"""Queues a computation of so many seconds on a GPU."""
RANKS = 4
SHARED: dict[str, Combination] = {"high": LEVELS["high"], "medium": combination("medium", Links.STEPS)}
OTHERS = {links.value: combination("medium", links) for links in (Links.IDLE, Links.LOADS)}
SHAPES = {"mesh": full_mesh(RANKS, 3.0, 0.2), "ring": ring(RANKS, 3.0, 0.2), "switch": single_switch(RANKS, 3.0, 0.2)}


@dataclass(frozen=True)
class Step:
    """What ranks do next: compute (s, by rank), reduce so many bytes, or send them from one rank to another."""

    kind: str
    seconds: Sequence[float] = ()
    nbytes: float = 0.0
    ends: tuple[int, int] = (0, 1)
    waits: bool = True


@dataclass
class Plan:
    """The program of all ranks, and what processes of the user's own do meanwhile."""

    steps: list[Step]
    on_gpus: list[Visit]
    on_links: list[Visit]
    ends_s: dict[Any, float] = field(default_factory=dict)


def random_plan(topology: Topology, rng: random.Random) -> Plan:
    """Without ties: a computation follows each message that no rank waits for."""
    steps: list[Step] = []
    for _ in range(rng.randint(2, 8)):
        kind, waits = rng.choice(["compute", "compute", "reduce", "send"]), rng.random() < 0.6
        seconds = [rng.uniform(0.0, 8.0) for _ in range(RANKS)]
        if steps and not steps[-1].waits and steps[-1].kind != "compute":
            kind = "compute"
        steps.append(Step(kind, seconds, rng.uniform(1.0, 30.0), tuple(rng.sample(range(RANKS), 2)), waits))
    on_links = visits(len(topology.links), rng, 5) if rng.random() < 0.8 else []
    return Plan(steps, visits(RANKS, rng, 5, 10.0) if rng.random() < 0.8 else [], on_links)


def own_processes(
    env: Any, gpus: Sequence[Any], links: Sequence[Any], plan: Plan, submit: Submit
) -> Iterator[Iterator[Any]]:
    """Processes of a user's own, on GPUs and links that are SimPy's or simsys'; each second one submits a task."""

    def task(name: tuple[str, int], entry: Visit) -> Iterator[Any]:
        yield env.timeout(entry.start_s)
        yield submit(entry.server, entry.seconds)
        plan.ends_s[name] = env.now

    def own(name: tuple[str, int], entry: Visit, server: Any) -> Iterator[Any]:
        yield env.timeout(entry.start_s)
        yield from visit(env, server, entry.seconds)
        plan.ends_s[name] = env.now

    for index, entry in enumerate(plan.on_gpus):
        name = "gpu", index
        yield task(name, entry) if index % 2 else own(name, entry, gpus[entry.server])
    for index, entry in enumerate(plan.on_links):
        yield own(("link", index), entry, links[entry.server])


def shared_executor(level: Combination, topology: Topology, log: Log | None = None) -> Executor:
    platform = Platform([TOY] * topology.num_gpus, topology, network=CutThroughNetwork)
    platform.share()
    layout = Layout(data=topology.num_gpus)
    model = ExecutionModel(named("ring"), Precision())
    return level(platform, model, layout.roles(), Probes([log] if log else []))


def simulated(level: str, topology: Topology, plan: Plan) -> dict[Any, float]:
    """When everything ends on shared hardware of simsys."""
    executor = shared_executor(SHARED[level], topology)
    platform, env, layout = executor.platform, executor.env, Layout(data=RANKS)
    plan.ends_s = {}

    def process(rank: Rank) -> Generator[Any, Any, None]:
        pending = []
        for number, step in enumerate(plan.steps):
            if step.kind == "compute":
                event = rank.compute(work_of(step.seconds[rank.index]))
            elif step.kind == "reduce":
                event = rank.all_reduce(step.nbytes, over="data")
            elif rank.index == step.ends[0]:
                event = rank.send(step.ends[1], step.nbytes, tag=number)
            elif rank.index == step.ends[1]:
                event = rank.recv(step.ends[0], tag=number)
            else:
                continue
            pending.append(event)
            if step.waits:
                yield event
        yield rank.wait(pending)
        plan.ends_s["rank", rank.index] = env.now

    assert executor.ranks() == list(range(RANKS))
    for index in executor.ranks():
        executor.run(index, process(Rank(index, layout, executor)))
    assert isinstance(platform, Platform)
    links = [platform.network.link(number) for number in range(len(topology.links))]

    def submit(gpu: int, seconds: float) -> simpy.Event:
        return platform.submit_computation_task(gpu, seconds=lambda _: seconds)

    for own in own_processes(env, platform.devices, links, plan, submit):
        env.process(own)
    env.run()
    executor.check_finished()
    return plan.ends_s


class Naive(NaiveCutThrough):
    """Every GPU and every link a `simpy.Resource`; a process for each rank, computation, message and collective."""

    def __init__(self, topology: Topology, plan: Plan) -> None:
        super().__init__(topology)
        self.plan = plan
        self.gpus = [simpy.Resource(self.env, capacity=1) for _ in range(RANKS)]
        self.joined = [0] * len(plan.steps)
        self.all_joined = [self.env.event() for _ in plan.steps]
        self.done = [self.env.event() for _ in plan.steps]

    def ends(self) -> dict[Any, float]:
        self.plan.ends_s = {}
        previous = self.env.timeout(0.0)
        for number, step in enumerate(self.plan.steps):
            if step.kind == "reduce":
                self.env.process(self._reduce(number, step, previous))
                previous = self.done[number]
        for rank in range(RANKS):
            self.env.process(self._rank(rank))
        for own in own_processes(self.env, self.gpus, self.resources, self.plan, self._task):
            self.env.process(own)
        self.env.run()
        return self.plan.ends_s

    def _task(self, gpu: int, seconds: float) -> simpy.Event:
        return self.env.process(visit(self.env, self.gpus[gpu], seconds))  # type: ignore[arg-type]

    def _rank(self, rank: int) -> Iterator[Any]:
        computed: simpy.Event = self.env.timeout(0.0)
        pending = []
        for number, step in enumerate(self.plan.steps):
            if step.kind == "compute":
                event = self._task(rank, step.seconds[rank])
                computed = computed & event
            elif step.kind == "reduce":
                self.env.process(self._join(number, computed))
                event = self.done[number]
            elif rank in step.ends:
                if rank == step.ends[0]:
                    self.env.process(self._send(number, step, computed))
                event = self.done[number]
            else:
                continue
            pending.append(event)
            if step.waits:
                yield event
        yield self.env.all_of(pending)
        self.plan.ends_s["rank", rank] = self.env.now

    def _join(self, number: int, computed: simpy.Event) -> Iterator[Any]:
        yield computed
        self.joined[number] += 1
        if self.joined[number] == RANKS:
            self.all_joined[number].succeed()

    def _reduce(self, number: int, step: Step, previous: simpy.Event) -> Iterator[Any]:
        yield self.all_joined[number] & previous
        for _ in range(2 * (RANKS - 1)):
            around = [self._transfer(rank, (rank + 1) % RANKS, step.nbytes / RANKS) for rank in range(RANKS)]
            yield self.env.all_of(around)
        self.done[number].succeed()

    def _send(self, number: int, step: Step, computed: simpy.Event) -> Iterator[Any]:
        yield computed
        yield self._transfer(*step.ends, step.nbytes)
        self.done[number].succeed()


@pytest.mark.parametrize("level", SHARED)
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_and_processes_of_the_user_end_when_a_naive_simulation_says(shape: str, level: str) -> None:
    for seed in range(cases(400, 10)):  # 2,400 plans in all
        rng = random.Random(f"{shape} {level} {seed}")
        topology = with_speeds_of_their_own(SHAPES[shape], rng)
        plan = random_plan(topology, rng)
        assert simulated(level, topology, plan) == pytest.approx(Naive(topology, plan).ends(), rel=1e-9), seed


@pytest.mark.parametrize("level", SHARED)
def test_a_shared_gpu_holds_up_the_rank_and_its_collective_but_not_its_messages(level: str) -> None:
    log = Log()
    executor = shared_executor(SHARED[level], full_mesh(2, BANDWIDTH, LATENCY), log)
    env, layout, ends = executor.env, Layout(data=2), dict[str, float]()

    def first(rank: Rank) -> Generator[Any, Any, None]:
        yield env.timeout(1.0)
        yield rank.send(1, 5e10, tag="early")
        ends["sent"] = env.now
        rank.compute(work_of(2.0), name="held up")
        yield rank.all_reduce(1.0, over="data")
        ends["reduced"] = env.now

    def second(rank: Rank) -> Generator[Any, Any, None]:
        yield rank.recv(0, tag="early")
        yield rank.all_reduce(1.0, over="data")

    executor.run(0, first(Rank(0, layout, executor)))
    executor.run(1, second(Rank(1, layout, executor)))
    env.process(visit(env, executor.platform.devices[0], 10.0))
    env.run()
    assert ends["sent"] == pytest.approx(2.0, abs=1e-5)
    assert log.spans(0, "held up") == [(10.0, 12.0)]
    assert ends["reduced"] == pytest.approx(12.0, abs=1e-5)


@pytest.mark.parametrize("level", [*SHARED.values(), *OTHERS.values()], ids=[*SHARED, *OTHERS])
def test_requests_without_a_declaration_are_refused(level: Combination) -> None:
    platform = Platform([TOY] * 2, full_mesh(2, BANDWIDTH, LATENCY), network=CutThroughNetwork)
    level(platform, ExecutionModel(named("ring"), Precision()), Layout(data=2).roles())
    for server in (platform.devices[0], platform.network.link(0)):
        with pytest.raises(UsageError, match=r"call share\(\) of the platform before the executor"):
            server.request()


@pytest.mark.parametrize("level", OTHERS.values(), ids=OTHERS)
def test_executors_that_leave_queues_out_refuse_shared_hardware(level: Combination) -> None:
    with pytest.raises(UsageError, match="leaves the queues of GPUs or links out"):
        shared_executor(level, full_mesh(2, BANDWIDTH, LATENCY))


def test_executors_need_the_environment_of_simsys() -> None:
    platform = Platform([TOY] * 2, full_mesh(2, BANDWIDTH, LATENCY), simpy.Environment())
    with pytest.raises(UsageError, match=r"a plain simpy\.Environment serves tasks"):
        LEVELS["high"](platform, ExecutionModel(named("ring"), Precision()), Layout(data=2).roles())


def held_up(steps: Callable[[Rank], Iterator[Any]], share: float = 0.0) -> tuple[Executor, Log]:
    """Two ranks run a program; the GPU of rank 0 is taken until 10 s, where a computation of 2 s waits from 1 s on."""
    log, layout = Log(), Layout(data=2)
    platform = Platform([TOY] * 2, full_mesh(2, BANDWIDTH, LATENCY), network=CutThroughNetwork)
    platform.share()
    model = ExecutionModel(named("ring"), Precision(), communication_share=share)
    executor = LEVELS["high"](platform, model, layout.roles(), Probes([log]))
    env = executor.env

    def program(rank: Rank) -> Generator[Any, Any, None]:
        yield env.timeout(1.0)
        rank.compute(work_of(2.0), name="held up")
        yield from steps(rank)

    ends = [executor.run(index, program(Rank(index, layout, executor))) for index in range(2)]
    env.process(visit(env, platform.devices[0], 10.0))
    env.run(env.all_of(ends))
    return executor, log


def test_a_rank_has_not_ended_before_its_computations_have_begun() -> None:
    executor, _ = held_up(lambda rank: iter(()))
    assert executor.env.now == 10.0
    assert executor.align([0, 1]) == 12.0


def test_marks_and_launches_come_after_the_computation_that_waits() -> None:
    def steps(rank: Rank) -> Iterator[Any]:
        rank.synchronize()
        rank.mark("then")
        yield rank.compute(work_of(1.0), name="next")

    executor, log = held_up(steps)
    assert sorted(log.marks) == [(0, "then", 12.0), (1, "then", 3.0)]
    assert [device.launched_s for device in executor.platform.devices] == [12.0, 3.0]
    assert log.spans(0, "next") == [(12.0, 13.0)]


def test_a_collective_that_waits_for_an_event_waits_for_the_computation_too() -> None:
    def steps(rank: Rank) -> Iterator[Any]:
        yield rank.all_reduce(1.0, over="data", name="later", after=executor_timeout(rank))

    def executor_timeout(rank: Rank) -> Any:
        return rank._executor.env.timeout(1.0)  # type: ignore[attr-defined]

    _, log = held_up(steps)
    assert [start_s for op, start_s, _ in log.operations if getattr(op, "name", "") == "later"] == [12.0]


def test_the_share_of_a_collective_is_lost_by_the_computation_beside_it() -> None:
    nbytes = BANDWIDTH

    def steps(rank: Rank) -> Iterator[Any]:
        rank._executor.share(rank.plan_collective(CollectiveKind.ALL_REDUCE, nbytes, over="data", name="beside"))
        yield rank.compute(work_of(1.0), name="next")

    _, log = held_up(steps, share=0.5)
    assert log.spans(0, "held up") == [(10.0, 12.0)]
    assert log.spans(0, "next") == [(12.0, pytest.approx(13.5, rel=1e-5))]
