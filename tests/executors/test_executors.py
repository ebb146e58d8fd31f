"""What the levels of detail take for the same program: theory at both, equality between them, deadlocks, memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind, bytes_sent, get_algorithm
from simsys.errors import DeadlockError, InternalError, OutOfMemoryError, UsageError
from simsys.executors import LEVELS
from simsys.framework import FRAMEWORKS, DataParallel, Schedule, TrainingFramework
from simsys.model.batch import Batch
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Work
from simsys.ops import Compute, Recv, Send
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import Block, Part, TrainingPlan
from simsys.platform.topology import Topology, full_mesh, ring, single_switch
from simsys.probes import Probe
from simsys.rank import Rank
from simsys.teams import Team
from tests.helpers.each_case import each_case
from tests.helpers.thorough import cases
from tests.helpers.toys import BANDWIDTH, LATENCY, TOY, Log, Program, Run, simulate, work_of

B, L = BANDWIDTH, LATENCY
GIB = 2.0**30
SIZES = [1.0, 1e6, 8 * 2.0**20, GIB]

both_levels = pytest.mark.parametrize("level", LEVELS)


def alone(ranks: int) -> list[tuple[int]]:
    """Roles in which every rank stands for itself, so that medium detail simulates all of them too."""
    return [(rank,) for rank in range(ranks)]


def once(verb: str, nbytes: float) -> Program:
    """A program of a single collective over the data axis."""

    def program(rank: Rank) -> Iterator[Any]:
        yield getattr(rank, verb)(nbytes, over="data")

    return program


# --- theory: uncontended collectives, from the sources in simsys.collectives ------------------------------------


@both_levels
@each_case("nbytes", SIZES)
@each_case("n", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("verb", "algorithm", "topology", "seconds"),
    [
        ("all_reduce", "ring", ring, lambda n, s: 2 * (n - 1) * (s / (n * B) + L)),
        ("all_gather", "ring", ring, lambda n, s: (n - 1) * (s / (n * B) + L)),
        ("reduce_scatter", "ring", ring, lambda n, s: (n - 1) * (s / (n * B) + L)),
        ("all_reduce", "ring", single_switch, lambda n, s: 2 * (n - 1) * (s / (n * B) + 2 * L)),
        ("all_reduce", "direct", full_mesh, lambda n, s: 2 * (s / (n * B) + L)),
        ("all_gather", "direct", full_mesh, lambda n, s: s / (n * B) + L),
        ("reduce_scatter", "direct", full_mesh, lambda n, s: s / (n * B) + L),
        ("broadcast", "direct", full_mesh, lambda n, s: s / B + L),
        ("all_to_all", "direct", full_mesh, lambda n, s: s / (n * B) + L),
        # through a switch the n-1 messages of a rank follow one another on its link
        ("all_reduce", "direct", single_switch, lambda n, s: 2 * ((n - 1) * s / (n * B) + 2 * L)),
        ("all_to_all", "direct", single_switch, lambda n, s: (n - 1) * s / (n * B) + 2 * L),
        ("all_reduce", "tree", full_mesh, lambda n, s: 2 * math.ceil(math.log2(n)) * (s / B + L)),
        ("broadcast", "tree", single_switch, lambda n, s: math.ceil(math.log2(n)) * (s / B + 2 * L)),
        ("broadcast", "ring", full_mesh, lambda n, s: 2 * (n - 1) * (s / (n * B) + L)),
        ("all_to_all", "ring", full_mesh, lambda n, s: (n - 1) * (s / (n * B) + L)),
    ],
)
def test_an_undisturbed_collective_takes_what_theory_says(
    level: str,
    verb: str,
    algorithm: str,
    topology: Callable[[int, float, float], Topology],
    seconds: Callable[[int, float], float],
    n: int,
    nbytes: float,
) -> None:
    run = simulate(level, once(verb, nbytes), Layout(data=n), topology=topology(n, B, L), algorithm=algorithm)
    assert run.end_s == pytest.approx(seconds(n, nbytes), rel=1e-9)


@both_levels
def test_a_ring_of_eight_through_a_switch_matches_a_fluid_simulation(level: str) -> None:
    run = simulate(level, once("all_reduce", GIB), Layout(data=8), topology=single_switch(8, B, L))
    assert run.end_s == pytest.approx(37.594964e-3, abs=5e-10)


@both_levels
@pytest.mark.parametrize("nbytes", [0.0, *SIZES])
@pytest.mark.parametrize(("topology", "hops"), [(full_mesh, 1), (single_switch, 2), (ring, 2)])
def test_a_message_takes_the_latencies_and_one_serialisation(
    level: str, topology: Callable[[int, float, float], Topology], hops: int, nbytes: float
) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            yield rank.send(2, nbytes)
        elif rank.index == 2:
            yield rank.recv(0)

    run = simulate(level, program, Layout(pipeline=4), topology=topology(4, B, L))
    assert run.ends_s[0] == run.ends_s[2] == pytest.approx(hops * L + nbytes / B, rel=1e-9)
    assert run.ends_s[1] == run.ends_s[3] == 0.0


@both_levels
def test_a_message_to_oneself_takes_no_time(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        rank.send(0, 1e9)
        yield rank.recv(0)

    assert simulate(level, program, Layout()).end_s == 0.0


@both_levels
@pytest.mark.parametrize(("data", "nbytes"), [(1, 1e9), (4, 0.0)])
def test_a_group_of_one_and_an_empty_buffer_cost_nothing(level: str, data: int, nbytes: float) -> None:
    assert simulate(level, once("all_reduce", nbytes), Layout(data=data)).end_s == 0.0


# --- streams: what waits for what -----------------------------------------------------------------------------


@both_levels
def test_computations_of_a_rank_run_one_after_another_with_their_host_overhead(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        rank.compute(work_of(1.0, layers=2.0), name="first")
        yield rank.compute(work_of(2.0), name="second")

    run = simulate(level, program, Layout(), per_layer_s=0.25)
    assert run.log.spans(0, "first") == [(0.0, 1.5)]
    assert run.log.spans(0, "second") == [(1.5, 3.5)]
    assert run.end_s == 3.5
    assert run.platform.devices[0].busy_s == 3.5


@both_levels
def test_a_collective_starts_after_the_computation_issued_before_it_even_if_nobody_waited(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        rank.compute(work_of(2.0))
        yield rank.all_reduce(4e9, over="data", name="exchange")

    run = simulate(level, program, Layout(data=4))
    ((start_s, end_s),) = {(start, end) for op, start, end in run.log.operations if op.name == "exchange"}
    assert start_s == pytest.approx(2.0)
    assert end_s == run.end_s == pytest.approx(2.0 + 6 * (1e9 / B + L), rel=1e-9)


@both_levels
def test_a_message_leaves_after_the_computation_issued_before_it(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            rank.compute(work_of(2.0))
            rank.send(1, 1e9, name="activations")
            yield rank.compute(work_of(5.0))
        else:
            yield rank.recv(0)

    run = simulate(level, program, Layout(pipeline=2))
    assert run.log.spans(0, "activations") == [(2.0, pytest.approx(2.0 + 1e9 / B + L))]
    assert run.ends_s == {0: 7.0, 1: pytest.approx(2.0 + 1e9 / B + L)}


@both_levels
def test_computation_and_a_collective_nobody_waits_for_go_on_side_by_side(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        pending = rank.all_reduce(4e9, over="data")
        yield rank.compute(work_of(3.0))
        yield pending

    assert simulate(level, program, Layout(data=4)).end_s == 3.0


@both_levels
def test_collectives_of_a_group_run_one_after_another(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.wait([rank.all_reduce(k * 1e9, over="data", name=f"bucket {k}") for k in (3, 1, 2)])

    run = simulate(level, program, Layout(data=4))
    lengths = [6 * (k * 1e9 / 4 / B + L) for k in (3, 1, 2)]
    assert run.end_s == pytest.approx(sum(lengths), rel=1e-9)
    ends = [end for k in (3, 1, 2) for op, _, end in run.log.operations if op.name == f"bucket {k}"]
    assert ends == pytest.approx([sum(lengths[:k]) for k in (1, 2, 3)])


@both_levels
def test_collectives_keep_their_order_even_if_the_second_is_called_when_the_first_becomes_ready(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        computed = rank.compute(work_of(1.0))
        first = rank.all_reduce(4e9, over="data", name="first")
        yield computed
        yield rank.all_reduce(8e9, over="data", name="second")
        assert first.processed

    run = simulate(level, program, Layout(data=4))
    starts = {op.name: start for op, start, _ in run.log.operations if op.name in ("first", "second")}
    assert starts == {"first": 1.0, "second": pytest.approx(1.0 + 6 * (1e9 / B + L))}


@both_levels
def test_messages_keep_their_order_even_if_the_second_is_sent_when_the_first_departs(level: str) -> None:
    arrived = {}

    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            computed = rank.compute(work_of(1.0))
            rank.send(1, 5e9, tag="large")
            yield computed
            yield rank.send(1, 0.5e9, tag="small")
        else:
            yield rank.recv(0, tag="large")
            arrived[level] = rank.now

    simulate(level, program, Layout(pipeline=2))
    assert arrived[level] == pytest.approx(1.0 + 5e9 / B + L)


@both_levels
def test_collectives_of_different_groups_run_side_by_side(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.wait([rank.all_reduce(2e9, over="data"), rank.all_reduce(2e9, over="tensor")])

    run = simulate(level, program, Layout(tensor=2, data=2))
    assert run.end_s == pytest.approx(2 * (1e9 / B + L), rel=1e-9)


@both_levels
def test_a_collective_waits_for_the_slowest_member(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.compute(work_of(1.0 + rank.index))
        yield rank.all_reduce(4e9, over="data")

    run = simulate(level, program, Layout(data=4), roles=alone(4))
    assert set(run.ends_s) == {0, 1, 2, 3}
    assert list(run.ends_s.values()) == [pytest.approx(4.0 + 6 * (1e9 / B + L), rel=1e-9)] * 4


@both_levels
def test_messages_with_one_tag_arrive_in_order_and_others_may_be_taken_first(level: str) -> None:
    taken = []

    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            for nbytes, tag in [(50e9, "a"), (5e9, "b"), (50e9, "a")]:
                yield rank.send(1, nbytes, tag=tag)
        else:
            for tag in ("b", "a", "a"):
                yield rank.recv(0, tag=tag)
                taken.append(rank.now)

    simulate(level, program, Layout(pipeline=2))
    assert taken == pytest.approx([1.1 + 2 * L, 1.1 + 2 * L, 2.1 + 3 * L])


@both_levels
def test_waiting_for_nothing_or_for_what_has_happened_takes_no_time(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.wait([])
        done = rank.compute(work_of(1.0))
        yield done
        yield rank.wait([done, done])

    assert simulate(level, program, Layout()).end_s == 1.0


# --- theory: whole training steps ------------------------------------------------------------------------------


def layered_plan(layers: int, forward_s: float, gradient_bytes: float, micro_batches: int = 1) -> TrainingPlan:
    block = Block("layer", (Part(work_of(forward_s)),), (Part(work_of(2 * forward_s)),), gradient_bytes)
    return TrainingPlan(((block,) * layers,), micro_batches, Work())


def train(
    level: str,
    plan: TrainingPlan,
    ranks: int,
    *,
    latency_s: float = L,
    bucket_bytes: float | None = None,
) -> float:
    """Seconds of one training step under DDP; without overlap unless a size of the buckets is given."""
    module = FRAMEWORKS.get("ddp", DataParallel)
    framework = FRAMEWORKS.get("training", TrainingFramework)
    options: dict[str, Any] = {"overlap": False}
    if bucket_bytes is not None:
        options = {"bucket_size": f"{bucket_bytes} B", "first_bucket_size": f"{bucket_bytes} B"}

    def program(rank: Rank) -> Iterator[Any]:
        schedule = FRAMEWORKS.get("1f1b", Schedule)()
        yield from framework(rank, plan, module(rank, plan, module.Options(**options)), schedule).step()

    return simulate(level, program, Layout(data=ranks), topology=ring(ranks, B, latency_s)).end_s


def all_reduce_seconds(ranks: int, nbytes: float, latency_s: float = L) -> float:
    return 2 * (ranks - 1) * (nbytes / (ranks * B) + latency_s)


@both_levels
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ddp_without_overlap_is_computation_plus_one_all_reduce(level: str, ranks: int, micro_batches: int) -> None:
    seconds = train(level, layered_plan(10, 1e-3, 1e8, micro_batches), ranks)
    assert seconds == pytest.approx(micro_batches * 30e-3 + all_reduce_seconds(ranks, 1e9), rel=1e-9)


@both_levels
@pytest.mark.parametrize("bucket_bytes", [1e6, 1e8, 3.3e8])
@pytest.mark.parametrize("forward_s", [1e-5, 1e-3, 1e-2])
def test_ddp_with_overlap_lies_between_the_longer_part_and_the_sum(
    level: str, forward_s: float, bucket_bytes: float
) -> None:
    plan = layered_plan(10, forward_s, 1e8)
    seconds = train(level, plan, 4, latency_s=0.0, bucket_bytes=bucket_bytes)
    computing_s, communicating_s = 30 * forward_s, all_reduce_seconds(4, 1e9, 0.0)
    assert max(computing_s, communicating_s) <= seconds * (1 + 1e-9)
    assert seconds <= (computing_s + communicating_s) * (1 + 1e-9)
    assert seconds < train(level, plan, 4, latency_s=0.0)  # the first bucket is early at least


@both_levels
def test_ddp_hides_all_but_the_last_bucket_behind_long_computation(level: str) -> None:
    seconds = train(level, layered_plan(10, 10e-3, 1e8), 4, bucket_bytes=1e8)
    assert seconds == pytest.approx(300e-3 + all_reduce_seconds(4, 1e8), rel=1e-9)


@both_levels
def test_averaging_after_many_local_steps_costs_one_all_reduce_in_all(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        step = work_of(0.5)
        for number in range(1, 21):
            yield rank.compute(step)
            if number % 10 == 0:
                yield rank.all_reduce(4e9, over="data")

    assert simulate(level, program, Layout(data=4)).end_s == pytest.approx(
        20 * 0.5 + 2 * all_reduce_seconds(4, 4e9), rel=1e-9
    )


@both_levels
def test_a_pipeline_of_equal_stages_has_the_bubble_of_gpipe(level: str) -> None:
    """(m + p - 1) slots forward (Huang et al. 2019, section 2.3), and a message on the way at each new stage."""
    stages, micro_batches, slot_s, nbytes = 4, 6, 0.1, 1e6

    def program(rank: Rank) -> Iterator[Any]:
        slot = work_of(slot_s)
        for _ in range(micro_batches):
            if rank.index > 0:
                yield rank.recv(rank.index - 1)
            yield rank.compute(slot)
            if rank.index < stages - 1:
                rank.send(rank.index + 1, nbytes)

    run = simulate(level, program, Layout(pipeline=stages))
    hop_s = nbytes / B + L
    assert run.end_s == pytest.approx((micro_batches + stages - 1) * slot_s + (stages - 1) * hop_s, rel=1e-9)


@both_levels
@pytest.mark.parametrize("compute_s", [0.05, 0.5])
def test_a_computation_and_a_collective_that_overlap_take_as_long_as_the_longer_one(
    level: str, compute_s: float
) -> None:
    exchange_s, before_s = all_reduce_seconds(4, 4e9), 0.25

    def program(rank: Rank) -> Iterator[Any]:
        rank.compute(work_of(before_s))
        yield rank.overlapped(work_of(compute_s), CollectiveKind.ALL_REDUCE, 4e9, over="data", name="both")

    run = simulate(level, program, Layout(data=4))
    assert run.end_s == pytest.approx(before_s + max(compute_s, exchange_s), rel=1e-9)
    lasts = sorted(end - before_s for _, end in run.log.spans(0, "both"))
    assert lasts == pytest.approx(sorted([compute_s, exchange_s]), rel=1e-9), "both begin together"


@both_levels
def test_overlapping_with_no_one_else_is_a_computation(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.overlapped(work_of(0.5), CollectiveKind.ALL_GATHER, 1e9, over="tensor")
        yield rank.compute(work_of(0.25))

    assert simulate(level, program, Layout(data=2)).end_s == pytest.approx(0.75, rel=1e-9)


class Waits(Probe):
    """Waits for messages: rank, start, moment of sending and end."""

    def __init__(self) -> None:
        self.told: list[tuple[int, float, float, float]] = []

    def waited(self, op: Recv, started_s: float, sent_s: float, ended_s: float) -> None:
        self.told.append((op.rank, started_s, sent_s, ended_s))


@both_levels
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(
    ("sender_s", "receiver_s", "waits"), [(2.0, 1.0, [(1, 1.0, 2.0)]), (2.0, 2.0, [(1, 2.0, 2.0)]), (1.0, 9.0, [])]
)
def test_probes_hear_how_long_a_message_is_waited_for_and_when_it_was_sent(
    level: str, planned: bool, sender_s: float, receiver_s: float, waits: list[tuple[int, float, float]]
) -> None:
    """A rank works, then waits for a message that another one sends after its own work."""
    hop_s = 5e9 / B + L

    def program(rank: Rank) -> Iterator[Any]:
        first = rank.index == 0
        work = work_of(sender_s if first else receiver_s)
        if planned:
            own = rank.plan_pass([rank.plan_compute(work)], send=(1, 5e9, "a") if first else None)
            other = [] if first else [rank.plan_pass([], receive=(0, "a"))]
            yield rank.program([own, *other], [0, *[0 for _ in other]], over="pipeline")
        else:
            yield rank.compute(work)
            yield rank.send(1, 5e9, tag="a") if first else rank.recv(0, tag="a")

    probe = Waits()
    simulate(level, program, Layout(pipeline=2), probes=[probe])
    assert probe.told == [
        (rank, pytest.approx(start_s), pytest.approx(sent_s), pytest.approx(sent_s + hop_s))
        for rank, start_s, sent_s in waits
    ]


@both_levels
def test_the_value_of_a_message_is_when_it_was_sent(level: str) -> None:
    values = []

    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            yield rank.compute(work_of(2.0))
            yield rank.send(1, 5e9)
        else:
            values.append((yield rank.recv(0)))

    simulate(level, program, Layout(pipeline=2))
    assert values == [pytest.approx(2.0)]


# --- equality of the levels on random programs -------------------------------------------------------------------

LAYOUT = Layout(tensor=2, data=2, pipeline=2)
KINDS = sorted(CollectiveKind)

amounts = st.sampled_from([1e-3, 2e-3, 0.01, 0.03])
sizes = st.sampled_from([1.0, 1e6, 1e8, 5e8])
steps = st.one_of(
    st.tuples(st.just("compute"), amounts, amounts),  # a duration for each of the two stages
    st.tuples(st.just("collective"), st.sampled_from(KINDS), st.sampled_from(["data", "tensor"]), sizes),
    st.tuples(st.just("overlapped"), st.sampled_from(KINDS), st.sampled_from(["data", "tensor"]), sizes, amounts),
    st.tuples(st.just("exchange"), st.booleans(), sizes),
    st.tuples(st.just("wait"), st.integers(0, 5)),
)
programs = st.lists(st.tuples(steps, st.booleans()), min_size=1, max_size=14)
Script = list[tuple[tuple[Any, ...], bool]]


def interpreted(script: Script) -> Program:
    """The program of a rank; steps that nobody waits for at once are waited for later, or at the end."""

    def program(rank: Rank) -> Iterator[Any]:
        pending = []
        stage = rank.layout.coordinates(rank.index)["pipeline"]
        for step, wait in script:
            if step[0] == "wait":
                if pending:
                    yield pending.pop(step[1] % len(pending))
                continue
            if step[0] == "compute":
                event = rank.compute(work_of(step[1 + stage]))
            elif step[0] == "collective":
                event = rank.collective(step[1], step[3], over=step[2], name="collective")
            elif step[0] == "overlapped":
                event = rank.overlapped(work_of(step[4]), step[1], step[3], over=step[2], name="compute")
            else:
                event = exchanged(rank, stage, *step[1:])
                wait = wait or stage == int(step[1])  # a sender waits, so that no two messages share a link
            if wait:
                yield event
            else:
                pending.append(event)
        yield rank.wait(pending)

    return program


def exchanged(rank: Rank, stage: int, backward: bool, nbytes: float) -> Any:
    """A message from each rank of one stage to its neighbour in the other."""
    offset = LAYOUT.tensor * LAYOUT.data
    other = rank.index + offset if stage == 0 else rank.index - offset
    return rank.send(other, nbytes) if stage == int(backward) else rank.recv(other)


@settings(max_examples=cases(200), deadline=None)
@given(programs, st.sampled_from(["ring", "direct", "tree", "double_tree", "auto"]))
def test_random_programs_end_at_the_same_time_at_both_levels(script: Script, algorithm: str) -> None:
    high, medium = (simulate(level, interpreted(script), LAYOUT, algorithm=algorithm) for level in ("high", "medium"))
    assert set(high.ends_s) == set(range(8))
    assert set(medium.ends_s) == {0, 4}
    for rank, end_s in high.ends_s.items():
        assert end_s == pytest.approx(medium.ends_s[rank // 4 * 4], rel=1e-9)
    for run in (high, medium):
        assert_work_is_conserved(run, script)
    assert_bytes_are_conserved(high, script)


@settings(max_examples=cases(100), deadline=None)
@given(programs, st.lists(amounts, min_size=4, max_size=4))
def test_random_programs_of_unequal_ranks_end_at_the_same_time_at_both_levels(
    script: Script, speeds: list[float]
) -> None:
    script = [entry for entry in script if entry[0][0] != "exchange"]

    def program(rank: Rank) -> Iterator[Any]:
        yield rank.compute(work_of(speeds[rank.index]))
        yield from interpreted(script)(rank)

    layout = Layout(tensor=2, data=2)
    high, medium = (simulate(level, program, layout, roles=alone(4)) for level in ("high", "medium"))
    assert high.ends_s == {rank: pytest.approx(end_s, rel=1e-9) for rank, end_s in medium.ends_s.items()}


def assert_work_is_conserved(run: Run, script: Script) -> None:
    """A GPU is busy for as long as its computations last, and the probes hear of each."""
    for rank in run.ends_s:
        durations = [
            step[1 + rank // 4] if step[0] == "compute" else step[4]
            for step, _ in script
            if step[0] in ("compute", "overlapped")
        ]
        assert run.platform.devices[rank].busy_s == pytest.approx(sum(durations))
        spans = [(start, end) for op, start, end in run.log.operations if isinstance(op, Compute) and op.rank == rank]
        assert [end - start for start, end in spans] == pytest.approx(durations)
        assert all(end <= start + 1e-12 for (_, end), (start, _) in itertools.pairwise(spans))


def assert_bytes_are_conserved(run: Run, script: Script) -> None:
    """The links carry what the algorithms and messages say, and each rank receives as much as it sends."""
    expected = 0.0
    for step, _ in script:
        if step[0] == "exchange":
            expected += 4 * step[2]
        elif step[0] in ("collective", "overlapped"):
            group = run.executor.communicator(Rank(0, LAYOUT, run.executor).layout.group(0, step[2]))
            algorithm = group.algorithm(step[1], step[3])
            expected += 4 * bytes_sent(algorithm.phases(step[1], 2), step[3])  # 4 groups of 2
    links = run.platform.network.links
    assert sum(link.nbytes for link in links) == pytest.approx(expected)
    for link in links:
        assert link.busy_s == pytest.approx(link.nbytes / B)


@pytest.mark.parametrize("kind", KINDS)
def test_every_rank_receives_what_others_send_it(kind: CollectiveKind) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.collective(kind, 1e6, over="data", name="exchange")

    run = simulate("high", program, Layout(data=5), algorithm="ring")
    phases = get_algorithm("ring").phases(kind, 5)
    sent, received = ([0.0] * 5 for _ in range(2))
    for link in run.platform.network.links:
        sent[link.spec.src] += link.nbytes
        received[link.spec.dst] += link.nbytes
    assert sum(sent) == pytest.approx(sum(received)) == pytest.approx(bytes_sent(phases, 1e6))
    if kind not in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):  # in these the root works alone for a while
        assert sent == pytest.approx(received)


def test_a_barrier_ends_when_the_last_rank_has_come_and_a_reduce_when_the_first_has_it_all() -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.compute(work_of(1e-3 * (1 + rank.index)))
        yield rank.barrier(over="data")
        yield rank.reduce(4e6, over="data")

    for level in ("high", "medium"):
        run = simulate(level, program, Layout(data=4), algorithm="tree", roles=alone(4))
        barrier_s, reduce_s = 4 * (LATENCY + 4 / BANDWIDTH), 2 * (LATENCY + 4e6 / BANDWIDTH)
        assert run.ends_s == dict.fromkeys(range(4), pytest.approx(4e-3 + barrier_s + reduce_s, rel=1e-9))


# --- serving passes ---------------------------------------------------------------------------------------------

GPT = build_transformer(gpt_architecture("toy", num_layers=3, hidden_size=256, num_attention_heads=4))


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize(
    "batch", [Batch(tokens=64, logits=1, attention_pairs=2080), Batch(8, 8, 0, 0, 4000, 8)], ids=["prompt", "decode"]
)
def test_a_forward_pass_takes_as_long_at_both_levels_as_its_cost_says(tensor: int, batch: Batch) -> None:
    layout = Layout(tensor=tensor)
    plan = forward_pass(GPT, tensor)
    times = []

    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            team = Team(layout.group(0, "tensor"), plan, rank._executor)
            for _ in range(3):
                yield team.forward(batch, host_s=1e-4)
                times.append(team.now)

    runs = [simulate(level, program, layout, per_layer_s=1e-5) for level in ("high", "medium")]
    assert times[:3] == pytest.approx(times[3:], rel=1e-9)
    for run in runs:
        (cost,) = run.executor._pass_costs.values()
        compute_s, exchange_s = cost.seconds(batch)
        assert run.end_s == pytest.approx(3 * (1e-4 + compute_s + exchange_s), rel=1e-9)
        assert run.platform.devices[0].busy_s == pytest.approx(3 * compute_s)
        assert (exchange_s > 0) == (tensor > 1)


# --- deadlocks and mistakes --------------------------------------------------------------------------------------


@both_levels
def test_a_collective_that_one_rank_never_joins_is_a_deadlock_that_names_it(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index != 2:
            yield rank.all_reduce(1e9, over="data", name="gradients")

    with pytest.raises(
        DeadlockError, match=r"all_reduce 'gradients' of ranks 0, 1, 2, 3: rank 2 never joined"
    ) as caught:
        simulate(level, program, Layout(data=4), roles=alone(4))
    assert "ranks 0, 1, 3 wait at executors/test_executors.py:" in str(caught.value)
    assert ".program)" in str(caught.value)


@both_levels
def test_a_message_that_is_never_sent_is_a_deadlock_that_names_both_ends(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 1:
            yield rank.recv(0, tag="activations")

    with pytest.raises(DeadlockError, match=r"rank 1 waits for a message from rank 0 \(tag 'activations'\)"):
        simulate(level, program, Layout(pipeline=2))


@both_levels
def test_ranks_that_both_receive_first_are_all_named(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.recv(1 - rank.index)
        yield rank.send(1 - rank.index, 1.0)

    with pytest.raises(DeadlockError, match=r"rank 0 waits .* rank 1(.|\n)*rank 1 waits .* rank 0") as caught:
        simulate(level, program, Layout(pipeline=2))
    assert caught.value.exit_code == 4


@both_levels
def test_a_message_nobody_receives_is_no_deadlock(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            yield rank.send(1, 1e9)

    assert simulate(level, program, Layout(pipeline=2)).ends_s[1] == 0.0


@both_levels
@pytest.mark.parametrize("differ", ["kind", "bytes"])
def test_mismatched_collectives_are_refused(level: str, differ: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        kind = CollectiveKind.ALL_GATHER if differ == "kind" and rank.index == 1 else CollectiveKind.ALL_REDUCE
        nbytes = 2e6 if differ == "bytes" and rank.index == 1 else 1e6
        yield rank.collective(kind, nbytes, over="data", name="exchange")

    with pytest.raises(UsageError, match="mismatched collectives: rank 1 calls"):
        simulate(level, program, Layout(data=2), roles=alone(2))


@both_levels
def test_an_axis_that_does_not_exist_is_refused(level: str) -> None:
    with pytest.raises(UsageError, match="no parallel axis 'experts'"):
        simulate(level, lambda rank: iter([rank.all_reduce(1.0, over="experts")]), Layout(data=2))


@both_levels
@pytest.mark.parametrize("verb", ["send", "recv"])
def test_a_rank_that_does_not_exist_is_refused(level: str, verb: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.send(7, 1.0) if verb == "send" else rank.recv(7)

    with pytest.raises(UsageError, match="there is no rank 7"):
        simulate(level, program, Layout(data=2))


# --- memory ------------------------------------------------------------------------------------------------------


@both_levels
def test_memory_is_taken_and_given_back_at_the_time_of_the_rank(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        rank.allocate(1e9, name="weights")
        yield rank.compute(work_of(2.0))
        rank.allocate(2e9, name="activations")
        rank.release(name="weights")
        rank.compute(work_of(1.0))
        yield rank.release(name="activations")  # at once, but in the order of the stream

    run = simulate(level, program, Layout())
    assert run.log.memory_in_use == [(0, 1e9, 0.0), (0, 3e9, 2.0), (0, 2e9, 2.0), (0, 0.0, 3.0)]
    assert run.platform.devices[0].memory.peak_bytes == 3e9


@both_levels
def test_running_out_of_memory_ends_the_run_with_that_very_error(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        yield rank.compute(work_of(1.0))
        yield rank.allocate(TOY.memory_bytes, name="weights")
        yield rank.allocate(1.0, name="activations")

    with pytest.raises(OutOfMemoryError, match=r"GPU 0 \(toy\) is out of memory: activations needs 1 B") as caught:
        simulate(level, program, Layout(data=2))
    assert type(caught.value) is OutOfMemoryError


@both_levels
def test_a_name_that_was_not_allocated_cannot_be_released(level: str) -> None:
    with pytest.raises(InternalError, match="no allocation 'weights'"):
        simulate(level, lambda rank: iter([rank.release(name="weights")]), Layout())


# --- what the levels cost and tell ---------------------------------------------------------------------------------


def test_medium_detail_needs_one_process_per_role_and_no_event_for_a_computation() -> None:
    def program(rank: Rank) -> Iterator[Any]:
        for _ in range(100):
            yield rank.compute(work_of(1e-3))
        yield rank.all_reduce(1e9, over="data")

    run = simulate("medium", program, Layout(data=8))
    assert set(run.ends_s) == {0}
    assert run.platform.env.events_scheduled <= 4  # the process' start and end, the collective
    assert set(simulate("high", program, Layout(data=8)).ends_s) == set(range(8))


@both_levels
def test_probes_hear_of_every_operation_once(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        rank.mark("iteration_start")
        yield rank.compute(work_of(1.0), name="forward")
        if rank.index == 0:
            yield rank.send(1, 50e9, name="activations")
        else:
            yield rank.recv(0)
        rank.mark("iteration_end")

    log = simulate(level, program, Layout(pipeline=2)).log
    assert isinstance(log, Log)
    told = sorted((op.rank, op.name, start, end) for op, start, end in log.operations)
    assert {type(op) for op, _, _ in log.operations} == {Compute, Send}
    assert told == [
        (0, "activations", 1.0, pytest.approx(2.0 + L)),
        (0, "forward", 0.0, 1.0),
        (1, "forward", 0.0, 1.0),
    ]
    assert sorted(log.marks) == [
        (0, "iteration_end", pytest.approx(2.0 + L)),
        (0, "iteration_start", 0.0),
        (1, "iteration_end", pytest.approx(2.0 + L)),
        (1, "iteration_start", 0.0),
    ]
