"""The search for halves with little bandwidth between them."""

from __future__ import annotations

from random import Random

import pytest

from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.report.bisection_graph import CutGraph
from simsys.report.bisection_search import best_found, cut_bytes_per_s


def test_a_cut_is_the_bandwidth_that_leaves_a_half() -> None:
    ring = CutGraph.of(TOPOLOGY_TYPES["ring"](6, 1.0, 0.0))
    assert cut_bytes_per_s(ring, {0, 1, 2}) == 2.0
    assert cut_bytes_per_s(ring, {0, 2, 4}) == 6.0


def test_switches_are_on_the_side_where_they_let_the_least_through() -> None:
    star = CutGraph.of(TOPOLOGY_TYPES["switch"](5, 1.0, 0.0))
    assert cut_bytes_per_s(star, {0}) == 1.0
    assert cut_bytes_per_s(star, {0, 1, 2, 3}) == 1.0
    assert cut_bytes_per_s(star, {0, 1}) == 2.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("switches", [0, 1])
def test_two_groups_are_found_however_their_nodes_are_numbered(seed: int, switches: int) -> None:
    """Full meshes, or switches, of ten nodes with one cable between: neither order nor columns separate them."""
    numbers = list(range(20))
    Random(seed).shuffle(numbers)
    groups = numbers[:10], numbers[10:]
    links = [(groups[0][0], groups[1][0], 1.0)]
    for place, group in enumerate(groups):
        hub = [20 + place] if switches else group
        links += [(a, b, 1.0) for a in group for b in hub if a < b]
    graph = CutGraph(20, [*links, *((b, a, rate) for a, b, rate in links)])
    assert best_found(graph, 0.0, symmetric=True) == pytest.approx(1.0)


def test_exchanges_find_what_no_start_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from simsys.report import bisection_search

    monkeypatch.setattr(bisection_search, "_starts", lambda graph: iter([{0, 2, 4, 6, 8, 10, 12, 14}]))
    torus = CutGraph.of(TOPOLOGY_TYPES["torus_2d"](16, 1.0, 0.0))
    assert cut_bytes_per_s(torus, {0, 2, 4, 6, 8, 10, 12, 14}) > 8.0
    assert best_found(torus, 0.0, symmetric=True) == 8.0
