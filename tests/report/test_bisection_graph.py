"""Networks as cuts see them: what is inside nodes and switches without a choice are left out."""

from __future__ import annotations

import pytest

from simsys.platform.custom_graph import Edge, custom_graph
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.report.bisection_graph import CutGraph


def clustered(kind: str, **options: object) -> CutGraph:
    fabric = Fabric(kind, 80e9, 0.0, options)
    return CutGraph.of(nodes_on_fabric(8, 8, NodeInside("nvswitch", 1e12, 0.0), Nics(8, 5e9, 0.0), fabric))


def test_parallel_links_add_up() -> None:
    graph = CutGraph(2, [(0, 1, 1.0), (0, 1, 2.0), (1, 0, 3.0)])
    assert sorted(graph.links()) == [(0, 1, 3.0), (1, 0, 3.0)]
    assert graph.symmetric
    assert graph.is_tree


def test_nodes_around_a_switch_are_a_star_with_the_bandwidth_of_all_their_cards() -> None:
    graph = clustered("switch")
    assert (graph.num_nodes, len(graph.free), graph.is_tree) == (8, 1, True)
    assert set(graph.links()) == {
        *((node, graph.free[0], 40e9) for node in range(8)),
        *((graph.free[0], node, 40e9) for node in range(8)),
    }


@pytest.mark.parametrize("kind", ["fat_tree", "rail_optimized"])
def test_equal_switches_are_one_so_that_two_levels_are_a_tree(kind: str) -> None:
    graph = clustered(kind, leaf_size=2)
    assert graph.is_tree
    assert len(graph.free) == 4 + 1  # a leaf for each two nodes, and a spine


def test_switches_in_a_row_are_one_link_as_fast_as_the_slowest_in_each_direction() -> None:
    edges = [
        Edge("gpu0", "a", 4.0, 0.0),
        Edge("a", "b", 3.0, 0.0, bidirectional=False),
        Edge("b", "a", 2.0, 0.0, bidirectional=False),
        Edge("b", "gpu1", 5.0, 0.0),
        Edge("b", "dead end", 9.0, 0.0),
    ]
    graph = CutGraph.of(custom_graph(2, 1.0, 0.0, edges=edges))
    assert sorted(graph.links()) == [(0, 1, 3.0), (1, 0, 2.0)]
    assert not graph.symmetric
    assert graph.free == []


def test_a_network_without_switches_stays_as_it_is() -> None:
    torus = TOPOLOGY_TYPES["torus_2d"](16, 1.0, 0.0)
    graph = CutGraph.of(torus)
    assert (graph.num_links, graph.num_nodes, graph.is_tree) == (len(torus.links), 16, False)
    assert graph.neighbours(0) == {1, 3, 4, 12}
