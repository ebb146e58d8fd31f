"""Chains: each goes from the root through every rank once, and together they use all cards of a node."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.collectives import CollectiveKind, Path, bytes_sent, get_algorithm
from simsys.collectives.chain import Chain
from simsys.errors import UsageError

BROADCAST, REDUCE = CollectiveKind.BROADCAST, CollectiveKind.REDUCE


def chains(per_node: int, size: int, kind: CollectiveKind = BROADCAST) -> list[list[int]]:
    """The ranks of each chain in order."""
    (phase,) = Chain(per_node).phases(kind, size)
    pairs = phase.transfers if kind is BROADCAST else [(dst, src) for src, dst in phase.transfers]
    each = [pairs[start : start + size - 1] for start in range(0, len(pairs), size - 1)]
    return [[links[0][0], *(dst for _, dst in links)] for links in each]


@pytest.mark.parametrize("kind", [BROADCAST, REDUCE])
@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (1, 8), (2, 8), (3, 4), (5, 1), (4, 3)])
def test_a_chain_leads_from_the_root_through_every_rank(kind: CollectiveKind, nodes: int, per_node: int) -> None:
    size = max(2, nodes * per_node)
    found = chains(per_node, size, kind)
    assert len(found) == (1 if nodes == 1 else per_node)
    for chain in found:
        assert chain[0] == 0
        assert sorted(chain) == list(range(size))
    phases = Chain(per_node).phases(kind, size)
    assert bytes_sent(phases, 1e9) == pytest.approx(1e9 * (size - 1))


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 8), (3, 8), (4, 4)])
def test_every_card_of_a_node_sends_an_equal_part(nodes: int, per_node: int) -> None:
    (phase,) = Chain(per_node).phases(BROADCAST, nodes * per_node)
    leaving = Counter(src for src, dst in phase.transfers if src // per_node != dst // per_node)
    assert all(leaving[rank] for rank in range(per_node)), "the root's node sends over all cards"
    assert max(leaving.values()) == 1


def test_ranks_that_do_not_fill_their_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="does not fill nodes of 4"):
        Chain(4).phases(BROADCAST, 6)


def test_it_beats_rings_and_trees_for_large_messages_in_small_groups_alone() -> None:
    path = Path(latency_s=5e-6, bytes_per_s=50e9)

    def seconds(name: str, size: int, nbytes: float) -> float:
        return get_algorithm(name).seconds(BROADCAST, size, nbytes, [path])

    assert seconds("chain", 8, 1e9) < min(seconds("ring", 8, 1e9), seconds("tree", 8, 1e9))
    assert seconds("chain", 1024, 1e4) > seconds("tree", 1024, 1e4)
