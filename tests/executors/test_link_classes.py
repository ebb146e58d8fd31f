"""Which ranks stay alike where their transfers share links: those whose transfers get the same rates."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.executors.link_classes import Exchange, rank_classes
from simsys.platform.flow_set import FlowSet
from simsys.platform.max_min import portions
from simsys.platform.routing import Way
from tests.helpers.thorough import cases


def over(*links: int) -> list[list[Way]]:
    """One step with one transfer over some links."""
    return [[tuple(((link, 1.0),) for link in links)]]


def pairs(*routes: tuple[int, ...], job: int = 0) -> list[Exchange]:
    """Groups of two ranks, each with one transfer."""
    return [Exchange(job, 0, (2 * place, 2 * place + 1), over(*links)) for place, links in enumerate(routes)]


def groups(classes: tuple[int, ...]) -> list[list[int]]:
    """Ranks of one class together."""
    found = defaultdict(list)
    for rank, each in enumerate(classes):
        found[each].append(rank)
    return sorted(found.values())


def test_ranks_whose_links_are_alike_stay_alike() -> None:
    found = rank_classes({0: [0] * 4, 1: [0] * 4}, [*pairs((0,), (1,)), *pairs((0,), (1,), job=1)], lambda _: 1.0)
    assert [groups(each) for each in found.values()] == [[[0, 1, 2, 3]]] * 2
    assert not set(found[0]) & set(found[1])


def test_those_that_meet_another_job_are_told_apart_and_so_is_who_meets_them() -> None:
    """The first pair meets another job; the second shares a link with the first, the third with none."""
    chained = [*pairs((0, 1), (1, 2), (3, 4)), *pairs((0,), job=1)]
    found = rank_classes({0: [0] * 6, 1: [0] * 2}, chained, lambda _: 1.0)
    assert groups(found[0]) == [[0, 1], [2, 3], [4, 5]]


def test_links_of_other_figures_tell_apart() -> None:
    found = rank_classes({0: [0] * 6}, pairs((0,), (1,), (2,)), lambda link: 2.0 if link == 2 else 1.0)
    assert groups(found[0]) == [[0, 1, 2, 3], [4, 5]]


def test_whoever_waits_for_one_that_is_told_apart_is_so_too() -> None:
    """Two pairs on links of their own, of which one meets another job; the other ranks wait for one of each pair."""
    waiting = [Exchange(0, 1, ranks, ()) for ranks in ((0, 4), (2, 5))]
    found = rank_classes({0: [0, 0, 0, 0, 1, 1], 1: [0, 0]}, [*pairs((0,), (1,)), *waiting], lambda _: 1.0)
    assert groups(found[0]) == [[0, 2], [1, 3], [4, 5]]
    shared = [*pairs((0,), (1,)), *pairs((1,), job=1), *waiting]
    found = rank_classes({0: [0, 0, 0, 0, 1, 1], 1: [0, 0]}, shared, lambda _: 1.0)
    assert groups(found[0]) == [[0], [1], [2], [3], [4], [5]]


ways = st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=3).map(sorted), min_size=1, max_size=8)


@given(ways, ways, st.lists(st.sampled_from([1.0, 2.0]), min_size=6, max_size=6))
@settings(max_examples=cases(200))
def test_transfers_of_one_class_have_the_same_rate(
    mine: list[list[int]], others: list[list[int]], bytes_per_s: list[float]
) -> None:
    exchanges = [*pairs(*map(tuple, mine)), *pairs(*map(tuple, others), job=1)]
    roles = {0: [0] * 2 * len(mine), 1: [0] * 2 * len(others)}
    classes = rank_classes(roles, exchanges, lambda link: bytes_per_s[link])
    sets = [FlowSet(each.steps[0]) for each in exchanges]
    rates = defaultdict(set)
    for exchange, portion in zip(exchanges, portions(sets, np.array(bytes_per_s)), strict=True):
        rates[classes[exchange.job][exchange.ranks[0]]].add(round(portion.bytes_per_s, 9))
    assert all(len(found) == 1 for found in rates.values())
