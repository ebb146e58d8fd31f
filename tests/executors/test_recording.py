"""The recording executor: what was asked for, in order, without time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from simsys.collectives import CollectiveKind
from simsys.collectives.choose import cheapest
from simsys.errors import DeadlockError, UsageError
from simsys.executors.execution_model import ExecutionModel
from simsys.framework import Rank, Team
from simsys.model.batch import Batch
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel, Precision, Work
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.testing import Recording, toy_model, toy_platform

LAYOUT = Layout(data=2)
Process = Callable[[Rank], Generator[Any, Any, None]]


def recording(**settings: int) -> Recording:
    return Recording(toy_platform(2), ExecutionModel(cheapest, Precision()), LAYOUT.roles(), **settings)


def run(process: Process, **settings: int) -> Recording:
    """Run `process` on both ranks."""
    executor = recording(**settings)
    for index in executor.ranks():
        executor.env.process(process(Rank(index, LAYOUT, executor)))
    executor.env.run()
    executor.check_finished()
    return executor


def test_every_verb_is_written_down_in_order_and_takes_no_time() -> None:
    work = Work((Kernel(OperatorKind.GEMM, flop=6.0, nbytes=4.0),))

    def process(rank: Rank) -> Generator[Any, Any, None]:
        rank.allocate(10.0, name="buffer")
        yield rank.compute(work, name="forward")
        exchange = rank.all_reduce(8.0, over="data", name="gradients")
        if rank.index == 0:
            yield rank.send(1, 3.0, tag="a")
        else:
            yield rank.recv(0, tag="a")
        yield rank.wait([exchange])
        rank.release(name="buffer")

    executor = run(process)
    assert executor.env.now == 0.0
    mine, others = ([op for op in executor.operations if op["rank"] == rank] for rank in (0, 1))
    assert mine == [
        {"rank": 0, "verb": "allocate", "name": "buffer", "nbytes": 10.0},
        {"rank": 0, "verb": "compute", "name": "forward", "flop": 6.0, "nbytes": 4.0},
        {"rank": 0, "verb": "all_reduce", "name": "gradients", "nbytes": 8.0, "group": [0, 1]},
        {"rank": 0, "verb": "send", "name": "send", "nbytes": 3.0, "peer": 1, "tag": "a"},
        {"rank": 0, "verb": "release", "name": "buffer"},
    ]
    assert others[3] == {"rank": 1, "verb": "recv", "name": "recv", "peer": 0, "tag": "a"}


def test_what_overlaps_is_written_down_in_both_parts() -> None:
    work = Work((Kernel(OperatorKind.GEMM, flop=6.0, nbytes=4.0),))

    def process(rank: Rank) -> Generator[Any, Any, None]:
        yield rank.overlapped(work, CollectiveKind.ALL_GATHER, 8.0, over="data", name="ring")
        pair = rank.plan_overlapped(work, CollectiveKind.ALL_GATHER, 8.0, over="data", name="ring")
        yield rank.program([rank.plan_pass([pair])], [0], over="pipeline")

    mine = [op for op in run(process).operations if op["rank"] == 0]
    parts = [
        {"rank": 0, "verb": "all_gather", "name": "ring", "nbytes": 8.0, "group": [0, 1]},
        {"rank": 0, "verb": "compute", "name": "ring", "flop": 6.0, "nbytes": 4.0},
    ]
    assert mine == parts * 2


def test_work_of_the_host_is_written_down_by_its_channel() -> None:
    def process(rank: Rank) -> Generator[Any, Any, None]:
        there = rank.to_host(8.0, name="gradients")
        updated = rank.update_on_host(56.0, name="optimizer", after=there)
        yield rank.from_host(4.0, name="weights", after=updated)

    mine = [op for op in run(process).operations if op["rank"] == 0]
    assert mine == [
        {"rank": 0, "verb": "to_host", "name": "gradients", "nbytes": 8.0},
        {"rank": 0, "verb": "update_on_host", "name": "optimizer", "nbytes": 56.0},
        {"rank": 0, "verb": "from_host", "name": "weights", "nbytes": 4.0},
    ]


def test_a_forward_pass_is_written_down_with_its_batch() -> None:
    executor = recording()
    team = Team(LAYOUT.group(0, "data"), forward_pass(toy_model()), executor)
    team.forward(Batch(tokens=5, logits=2, decode_context_tokens=30, decode_sequences=1), name="step")
    assert executor.operations == [
        {
            "rank": 0,
            "verb": "forward",
            "name": "step",
            "tokens": 5,
            "logits": 2,
            "decode_sequences": 1,
            "decode_context_tokens": 30,
            "group": [0, 1],
        }
    ]


def test_a_transfer_between_teams_is_written_down_with_both() -> None:
    executor, plan = recording(), forward_pass(toy_model())
    here, there = (Team(LAYOUT.group(rank, "tensor"), plan, executor) for rank in (0, 1))
    assert here.send(there, [12.0], name="kv_transfer").processed
    assert executor.operations == [
        {"rank": 0, "verb": "transfer", "name": "kv_transfer", "nbytes": 12.0, "group": [0], "to": [1]}
    ]


def test_partners_still_have_to_meet() -> None:
    def process(rank: Rank) -> Generator[Any, Any, None]:
        if rank.index == 0:
            yield rank.all_gather(8.0, over="data")

    with pytest.raises(DeadlockError, match=r"all_gather .* of ranks 0, 1: rank 1 never joined"):
        run(process)


def test_a_receiver_waits_for_the_sender() -> None:
    order = []

    def process(rank: Rank) -> Generator[Any, Any, None]:
        if rank.index == 0:
            yield rank.recv(1)
            order.append("received")
        else:
            order.append("sent")
            yield rank.send(0, 1.0)

    run(process)
    assert order == ["sent", "received"]


def test_an_endless_module_is_stopped() -> None:
    def process(rank: Rank) -> Generator[Any, Any, None]:
        while True:
            yield rank.compute(Work(), name="again")

    with pytest.raises(UsageError, match=r"no end after 50 operations; the last is .*'again'"):
        run(process, max_operations=50)
