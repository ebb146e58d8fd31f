"""What keeps ranks and links from being as they were at the beginning of an iteration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simsys.executors.executor import Executor
from simsys.executors.iterations.at_rest import at_rest, rank_states
from simsys.framework import Rank
from simsys.parallel.layout import Layout
from simsys.testing.toys import finish, toy_executor

LAYOUT = Layout(data=2)


def executor(level: str) -> tuple[Executor, list[Rank]]:
    made = toy_executor(level, LAYOUT, [[0], [1]])
    return made, [Rank(index, LAYOUT, made) for index in range(2)]


def all_reduce(ranks: list[Rank]) -> None:
    for rank in ranks:
        rank.all_reduce(1e6, over="data")


def all_reduce_of_one(ranks: list[Rank]) -> None:
    ranks[0].all_reduce(1e6, over="data")


def sent(ranks: list[Rank]) -> None:
    ranks[0].send(1, 1e6, tag="a")


def awaited(ranks: list[Rank]) -> None:
    ranks[1].recv(0, tag="a")


def copied(ranks: list[Rank]) -> None:
    ranks[0].to_host(1e6)


def after_a_copy(ranks: list[Rank]) -> None:
    ranks[0].all_reduce(1e6, over="data", after=ranks[0].to_host(1e6))


@pytest.mark.parametrize("level", ["medium", "high"])
@pytest.mark.parametrize("begun", [all_reduce, all_reduce_of_one, sent, awaited, copied, after_a_copy])
def test_what_is_under_way_or_lacks_a_partner_is_no_rest(begun: Callable[[list[Rank]], None], level: str) -> None:
    made, ranks = executor(level)
    assert at_rest(made, 0.0)
    begun(ranks)
    assert not at_rest(made, 0.0)


@pytest.mark.parametrize("level", ["medium", "high"])
@pytest.mark.parametrize("begun", [all_reduce, copied])
def test_what_has_ended_is(begun: Callable[[list[Rank]], None], level: str) -> None:
    made, ranks = executor(level)
    begun(ranks)
    finish(made.env)
    assert at_rest(made, made.env.now)


def test_a_message_without_a_receiver_is_no_rest() -> None:
    made, ranks = executor("medium")
    sent(ranks)
    finish(made.env)
    assert not at_rest(made, made.env.now)
    awaited(ranks)
    assert at_rest(made, made.env.now)


def test_ranks_keep_memory_and_delays_between_iterations() -> None:
    made, ranks = executor("medium")
    before = rank_states(made, [0, 1])
    ranks[0].allocate(100.0, name="buffer")
    assert rank_states(made, [0, 1]) != before
    ranks[0].release(100.0, name="buffer")
    assert rank_states(made, [0, 1]) == before
    made.platform.devices[1].lost_s = 1e-3
    assert rank_states(made, [0, 1]) != before
