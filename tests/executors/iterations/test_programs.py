"""Passes that are known beforehand: a recurrence at medium detail, and the same times step by step at high."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys import DistributedAISimulator, SimulationConfig
from simsys.collectives import CollectiveKind
from simsys.errors import DeadlockError
from simsys.parallel.layout import Layout
from simsys.platform.topology import full_mesh
from simsys.rank import Rank
from tests.helpers.toys import BANDWIDTH, LATENCY, Run, simulate, work_of

LEVELS = ["high", "medium"]
HOP_S = LATENCY + 1e6 / BANDWIDTH

Plan = list[tuple[int, float]]
"""For each message of a chain: the rank that computes, and for how long, before it hands on to the next."""


def chain(plan: Plan, ranks: int, tail_s: float = 0.0) -> Any:
    """A program in which each entry waits for the one before it, wherever that ran; then a computation of its own."""

    def program(rank: Rank) -> Iterator[Any]:
        passes = []
        for index, (owner, seconds) in enumerate(plan):
            if owner != rank.index:
                continue
            before = plan[index - 1][0] if index else owner
            after = plan[index + 1][0] if index + 1 < len(plan) else owner
            receive = (before, index - 1) if before != owner else None
            send = (after, 1e6, index) if after != owner else None
            passes.append(rank.plan_pass((rank.plan_compute(work_of(seconds)),), receive=receive, send=send))
        yield rank.program(passes, [0] * len(passes), over="pipeline")
        yield rank.compute(work_of(tail_s))

    return program


def run(level: str, plan: Plan, ranks: int = 4, tail_s: float = 0.0) -> Run:
    topology = full_mesh(ranks, BANDWIDTH, LATENCY)
    return simulate(level, chain(plan, ranks, tail_s), Layout(pipeline=ranks), topology=topology)


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_takes_its_computations_and_its_hops(level: str) -> None:
    plan = [(0, 1.0), (1, 2.0), (3, 3.0), (3, 1.0), (0, 0.5)]
    assert run(level, plan).end_s == pytest.approx(7.5 + 3 * HOP_S, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_what_follows_a_program_begins_at_its_end(level: str) -> None:
    assert run(level, [(0, 1.0), (1, 2.0)], ranks=2, tail_s=4.0).end_s == pytest.approx(7.0 + HOP_S, rel=1e-12)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.25, 1.0, 3.5])), min_size=1, max_size=30))
def test_both_levels_agree(plan: Plan) -> None:
    high, medium = run("high", plan), run("medium", plan)
    assert medium.end_s == pytest.approx(high.end_s, rel=1e-9)


def test_medium_needs_no_event_for_a_pass() -> None:
    short, long = (
        run("medium", [(i % 4, 1.0) for i in range(count)]).platform.env.events_scheduled for count in (8, 800)
    )
    assert short == long


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, float, float]]:
    """What a pass consists of: the kind of operation, seconds of computation, bytes of an all-reduce."""
    kinds = st.sampled_from(["compute", "collective", "overlapped"])
    rest = st.lists(st.tuples(kinds, st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([1e9, 5e10])), max_size=5)
    return [("compute", 0.5, 0.0), *draw(rest)]  # at first, so that no two messages are under way at once


@settings(max_examples=60)
@given(st.lists(runs(), min_size=1, max_size=6))
def test_both_levels_agree_on_passes_of_all_kinds_of_operations(passes: list[list[tuple[str, float, float]]]) -> None:
    """Two stages of two ranks that work on every micro-batch in turn; the second computes twice as long."""

    def operation(rank: Rank, kind: str, seconds: float, nbytes: float) -> Any:
        work = work_of(seconds * (1 + rank.index // 2))
        if kind == "compute":
            return rank.plan_compute(work)
        if kind == "collective":
            return rank.plan_collective(CollectiveKind.ALL_REDUCE, nbytes, over="tensor", name="sum")
        return rank.plan_overlapped(work, CollectiveKind.ALL_REDUCE, nbytes, over="tensor")

    def program(rank: Rank) -> Iterator[Any]:
        first = rank.index < 2
        yield rank.program(
            [
                rank.plan_pass(
                    [operation(rank, *each) for each in run],
                    receive=None if first else (rank.index - 2, "forward"),
                    send=(rank.index + 2, 1e6, "forward") if first else None,
                )
                for run in passes
            ],
            range(len(passes)),
            over="pipeline",
        )

    high, medium = (simulate(level, program, Layout(tensor=2, pipeline=2)) for level in LEVELS)
    assert medium.ends_s == {rank: pytest.approx(high.ends_s[rank], rel=1e-9) for rank in (0, 2)}
    for rank in (0, 2):
        busy_s = [each.platform.devices[rank].busy_s for each in (high, medium)]
        assert busy_s[1] == pytest.approx(busy_s[0], rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_an_overlapped_operation_of_a_program_takes_as_long_as_its_longer_part(level: str) -> None:
    exchange_s = 2 * (1e11 / (2 * BANDWIDTH) + LATENCY)

    def program(rank: Rank) -> Iterator[Any]:
        run = tuple(
            rank.plan_overlapped(work_of(seconds), CollectiveKind.ALL_REDUCE, 1e11, over="tensor")
            for seconds in (0.5, 5.0)
        )
        yield rank.program([rank.plan_pass(run)], [0], over="pipeline")

    assert simulate(level, program, Layout(tensor=2)).end_s == pytest.approx(exchange_s + 5.0, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_may_be_for_what_comes_after_the_program(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        run = (rank.plan_compute(work_of(1.0)),)
        yield rank.program(
            [rank.plan_pass(run, send=(1, 1e6, "late") if rank.index == 0 else None)], [7], over="pipeline"
        )
        if rank.index == 1:
            yield rank.recv(0, tag=("late", 7))
        yield rank.compute(work_of(2.0))

    end_s = simulate(level, program, Layout(pipeline=2), topology=full_mesh(2, BANDWIDTH, LATENCY)).end_s
    assert end_s == pytest.approx(3.0 + HOP_S, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_messages_that_look_alike_arrive_in_order(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        work, longer = (rank.plan_compute(work_of(seconds)) for seconds in (1.0, 4.0))
        if rank.index == 0:
            passes = [rank.plan_pass([work], send=(1, 1e6, "same"))] * 2
        else:
            passes = [rank.plan_pass([longer]), *[rank.plan_pass([work], receive=(0, "same"))] * 2]
        yield rank.program(passes, [0] * len(passes), over="pipeline")
        if rank.index == 0:
            yield rank.compute(work_of(0.5))

    run = simulate(level, program, Layout(pipeline=2), topology=full_mesh(2, BANDWIDTH, LATENCY))
    assert run.ends_s == {0: pytest.approx(2.5, rel=1e-12), 1: pytest.approx(6.0, rel=1e-12)}


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_may_wait_for_what_was_sent_before_it(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            rank.send(1, 1e6, tag=("early", 3))
        receive = (0, "early") if rank.index == 1 else None
        yield rank.program([rank.plan_pass([rank.plan_compute(work_of(1.0))], receive=receive)], [3], over="pipeline")

    end_s = simulate(level, program, Layout(pipeline=2), topology=full_mesh(2, BANDWIDTH, LATENCY)).end_s
    assert end_s == pytest.approx(1.0 + HOP_S, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_that_is_never_sent_is_a_deadlock(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        receive = (0, "never") if rank.index == 1 else None
        yield rank.program([rank.plan_pass((), receive=receive)], [0], over="pipeline")

    with pytest.raises(DeadlockError, match="rank 1 waits for a message from rank 0"):
        simulate(level, program, Layout(pipeline=2), topology=full_mesh(2, BANDWIDTH, LATENCY))


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_may_wait_for_what_comes_after_another(level: str) -> None:
    def program(rank: Rank) -> Iterator[Any]:
        run = (rank.plan_compute(work_of(1.0)),)
        receive = (1, "afterwards") if rank.index == 0 else None
        yield rank.program([rank.plan_pass(run, receive=receive)], [0], over="pipeline")
        if rank.index == 1:
            yield rank.compute(work_of(5.0))
            yield rank.send(0, 1e6, tag=("afterwards", 0))

    end_s = simulate(level, program, Layout(pipeline=2), topology=full_mesh(2, BANDWIDTH, LATENCY)).end_s
    assert end_s == pytest.approx(7.0 + HOP_S, rel=1e-12)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_stages_that_wait_for_what_they_send_are_the_same_at_both_levels(micro_batches: int) -> None:
    """With one micro-batch the first stage sends once and receives nothing before its program ends."""

    def metrics(lod: str) -> dict[str, Any]:
        config = SimulationConfig(
            hardware={"gpu": "H100-SXM", "gpus_per_node": 4},
            model={"name": "GPT2-Small"},
            parallelism={"strategy": "PP", "pp_stages": 4, "p2p_overlap": False},
            training={"batch_size_per_gpu": 1, "gradient_accumulation_steps": micro_batches, "num_iterations": 1},
            simulation={"lod": lod},
        )
        return DistributedAISimulator(config).run().metrics

    high, medium = metrics("high"), metrics("medium")
    for name in ("mean_iteration_s", "exposed_communication_s", "bubble_s"):
        assert medium[name] == pytest.approx(high[name], rel=1e-9), name
