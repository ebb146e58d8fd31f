"""One algorithm inside nodes and another across them: what they move where, and what that takes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind, Path, bytes_sent, get_algorithm
from simsys.collectives.base import Span
from simsys.collectives.hierarchical import Hierarchical
from simsys.errors import UsageError
from tests.helpers.each_case import each_case

ALL_REDUCE = CollectiveKind.ALL_REDUCE
NAMES = ("ring", "tree", "direct", "double_tree", "halving_doubling")
KINDS = [
    (f"{inside}/{across}", kind)
    for inside, across in itertools.product((*NAMES, "nvls"), NAMES)
    for kind in sorted(get_algorithm(f"{inside}/{across}").kinds)
]


@pytest.mark.parametrize("kind", [ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER])
@each_case(("nodes", "each"), [(1, 4), (4, 1), (2, 2), (2, 8), (3, 4), (8, 8)])
@pytest.mark.parametrize("name", ["hierarchical", "ring/direct", "direct/ring"])
def test_it_moves_what_a_ring_moves_but_little_across_nodes(
    name: str, kind: CollectiveKind, nodes: int, each: int
) -> None:
    size = nodes * each
    phases = get_algorithm(name).for_nodes(each).phases(kind, size)
    flat = get_algorithm("ring").phases(kind, size)
    assert bytes_sent(phases, 1e9) == pytest.approx(bytes_sent(flat, 1e9), rel=1e-12)
    outside = [
        replace(phase, transfers=tuple(pair for pair in phase.transfers if pair[0] // each != pair[1] // each))
        for phase in phases
    ]
    rounds = 2 if kind is ALL_REDUCE else 1
    assert bytes_sent(outside, 1.0) == pytest.approx(rounds * (nodes - 1), rel=1e-12)


def test_an_all_reduce_follows_its_formula() -> None:
    hierarchical = get_algorithm("hierarchical").for_nodes(8)
    inside, across = Path(2e-6, 300e9), Path(5e-6, 25e9)
    expected = 2 * 7 * (1e9 / 8 / 300e9 + 2e-6) + 2 * 3 * (1e9 / 32 / 25e9 + 5e-6)
    seconds = hierarchical.seconds(ALL_REDUCE, 32, 1e9, [inside, across, inside])
    assert seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "kind"), [case for case in KINDS if not case[0].startswith("nvls")])
@each_case(("nodes", "each"), [(2, 2), (3, 2), (2, 4), (4, 3)])
def test_every_pair_of_algorithms_reaches_every_rank(name: str, kind: CollectiveKind, nodes: int, each: int) -> None:
    """What a rank knows at the end stems from all whose data it needs; what a switch adds up has no single sender."""
    size = nodes * each
    knows = [{rank} for rank in range(size)]
    for phase in get_algorithm(name).for_nodes(each).phases(kind, size):
        for _ in range(phase.repeat):
            before = [set(known) for known in knows]
            for src, dst in phase.transfers:
                knows[dst] |= before[src]
    everyone = set(range(size))
    if kind is CollectiveKind.REDUCE:
        assert knows[0] == everyone
    elif kind is CollectiveKind.BROADCAST:
        assert all(0 in known for known in knows)
    else:
        assert all(known == everyone for known in knows)


@given(st.sampled_from(KINDS), st.integers(1, 5), st.integers(1, 8), st.floats(0.0, 1e12))
def test_the_closed_form_is_the_sum_over_the_phases(
    case: tuple[str, CollectiveKind], nodes: int, each: int, nbytes: float
) -> None:
    name, kind = case
    algorithm = get_algorithm(name).for_nodes(each)
    phases = algorithm.phases(kind, nodes * each)
    path = Path(1e-6, 50e9)
    added = sum(phase.repeat * path.seconds(phase.fraction * nbytes) for phase in phases)
    assert algorithm.seconds(kind, nodes * each, nbytes, [path]) == pytest.approx(added, rel=1e-12, abs=0.0)


def test_ranks_reduce_to_the_first_of_their_node_where_the_inner_algorithm_cannot_scatter() -> None:
    phases = get_algorithm("tree/ring").for_nodes(4).phases(ALL_REDUCE, 8)
    inside, across = phases[:2] + phases[-2:], phases[2:-2]
    assert all(src // 4 == dst // 4 for phase in inside for src, dst in phase.transfers)
    assert [(phase.transfers, phase.fraction, phase.repeat) for phase in across] == [(((0, 4), (4, 0)), 0.5, 2)]


def test_a_group_in_one_node_uses_the_inner_algorithm_and_one_with_single_ranks_the_outer_one() -> None:
    pair = get_algorithm("halving_doubling/ring")
    inside = pair.for_nodes(8).phases(ALL_REDUCE, 8)
    assert inside == get_algorithm("halving_doubling").phases(ALL_REDUCE, 8)
    assert pair.for_nodes(1).phases(ALL_REDUCE, 8) == get_algorithm("ring").phases(ALL_REDUCE, 8)


def test_chunks_are_compared_inside_and_across() -> None:
    labels = [each.label for each in get_algorithm("double_tree/double_tree").variants()]
    assert len(labels) == len(set(labels)) == 9
    assert "double_tree*8/double_tree*64" in labels


def test_switches_reduce_inside_but_not_across() -> None:
    assert get_algorithm("nvls/ring").suits(Span(2, 8))
    assert not get_algorithm("ring/nvls").suits(Span(2, 8))


def test_groups_fill_their_nodes() -> None:
    with pytest.raises(UsageError, match="12 ranks does not fill nodes of 8"):
        get_algorithm("hierarchical").for_nodes(8).phases(ALL_REDUCE, 12)


def test_two_algorithms_that_cannot_work_together_are_refused() -> None:
    class OnlySends(type(get_algorithm("ring"))):  # type: ignore[misc]
        name = "only_sends"
        kinds = frozenset({CollectiveKind.SEND_RECV})

    with pytest.raises(UsageError, match="only_sends inside and ring across have no collective in common"):
        Hierarchical(2, OnlySends())
