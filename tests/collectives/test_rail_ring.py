"""As many rings as ranks per node: each passes every rank once, and each leaves a node elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.collectives import CollectiveKind, Path, bytes_sent, get_algorithm
from simsys.collectives.base import Span
from simsys.errors import UsageError

ALL_REDUCE, ALL_GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
shapes = pytest.mark.parametrize(("nodes", "each"), [(2, 2), (2, 8), (3, 4), (4, 3), (8, 8), (5, 1)])


@shapes
def test_each_ring_passes_every_rank_once(nodes: int, each: int) -> None:
    size = nodes * each
    (phase,) = get_algorithm("rail_ring").for_nodes(each).phases(ALL_GATHER, size)
    assert len(phase.transfers) == each * size
    for ring in range(each):
        following = dict(phase.transfers[ring * size : (ring + 1) * size])
        rank, seen = 0, []
        for _ in range(size):
            seen.append(rank)
            rank = following[rank]
        assert rank == 0
        assert sorted(seen) == list(range(size))


@shapes
def test_every_rank_sends_one_transfer_out_of_its_node_and_receives_one(nodes: int, each: int) -> None:
    (phase,) = get_algorithm("rail_ring").for_nodes(each).phases(ALL_REDUCE, nodes * each)
    crossing = [pair for pair in phase.transfers if pair[0] // each != pair[1] // each]
    for end in (0, 1):
        assert Counter(pair[end] for pair in crossing) == dict.fromkeys(range(nodes * each), 1)


@pytest.mark.parametrize(("nodes", "each", "astray"), [(2, 8, 0), (4, 8, 0), (3, 8, 8), (5, 4, 4)])
def test_rings_stay_on_their_rails_but_from_the_last_to_the_first_of_an_odd_number_of_nodes(
    nodes: int, each: int, astray: int
) -> None:
    (phase,) = get_algorithm("rail_ring").for_nodes(each).phases(ALL_GATHER, nodes * each)
    crossing = [pair for pair in phase.transfers if pair[0] // each != pair[1] // each]
    assert sum(src % each != dst % each for src, dst in crossing) == astray


@shapes
def test_it_moves_what_one_ring_moves_in_as_many_steps(nodes: int, each: int) -> None:
    size = nodes * each
    for kind, steps in ((ALL_REDUCE, 2 * (size - 1)), (ALL_GATHER, size - 1)):
        algorithm = get_algorithm("rail_ring").for_nodes(each)
        (phase,) = algorithm.phases(kind, size)
        assert phase.repeat == steps
        ring = bytes_sent(get_algorithm("ring").phases(kind, size), 1e9)
        assert bytes_sent((phase,), 1e9) == pytest.approx(ring, rel=1e-12)
        path = Path(3e-6, 24e9)
        expected = steps * (3e-6 + 1e9 / (size * each) / 24e9)
        assert algorithm.seconds(kind, size, 1e9, [path]) == pytest.approx(expected, rel=1e-12)


def test_it_is_for_groups_that_fill_several_nodes() -> None:
    algorithm = get_algorithm("rail_ring")
    assert algorithm.suits(Span(2, 8))
    assert not algorithm.suits(Span(1, 8))
    assert not algorithm.suits(Span(8, 1))
    with pytest.raises(UsageError, match="12 ranks does not fill nodes of 8"):
        algorithm.for_nodes(8).phases(ALL_REDUCE, 12)
