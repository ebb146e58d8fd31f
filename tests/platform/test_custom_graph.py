"""A user's own graph: the same as a built-in one when written out, and everything wrong with it at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform.custom_graph import Edge, custom_graph, edge_problems, joined
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.topology import Topology, TopologyError


def written_out(graph: Topology) -> list[Edge]:
    """Every link as an edge of its own."""

    def name(vertex: int) -> str:
        return f"gpu{vertex}" if vertex < graph.num_gpus else graph.vertex_name(vertex)

    return [
        Edge(name(link.src), name(link.dst), link.bytes_per_s, link.latency_s, False, link.kind)
        for link in graph.links
    ]


@pytest.mark.parametrize("kind", [kind for kind in TOPOLOGY_TYPES if kind not in ("custom", "dragonfly")])
@pytest.mark.parametrize("n", [2, 8, 12])
def test_a_built_in_topology_written_out_is_the_same(kind: str, n: int) -> None:
    graph = TOPOLOGY_TYPES[kind](n, 50e9, 1e-6)
    own = replace(custom_graph(n, 1.0, 0.0, edges=written_out(graph)), routing=graph.routing)
    assert (own.links, own.names) == (graph.links, graph.names)
    assert all(own.route(a, b) == graph.route(a, b) for a in range(n) for b in range(n))


def test_an_edge_is_two_links_unless_it_is_not() -> None:
    edges = [Edge("gpu0", "sw"), Edge("sw", "gpu1", bidirectional=False), Edge("gpu1", "gpu0", bidirectional=False)]
    graph = custom_graph(2, 5e9, 1e-6, edges=edges)
    assert [(link.src, link.dst) for link in graph.links] == [(0, 2), (2, 0), (2, 1), (1, 0)]
    assert graph.names == ("sw",)
    assert (graph.hops(0, 1), graph.hops(1, 0)) == (2, 1)


def test_figures_are_those_of_the_edge_or_else_of_the_network() -> None:
    edges = [Edge("gpu0", "gpu1", 7e9), Edge("gpu1", "gpu2", None, 3e-6)]
    figures = [(link.bytes_per_s, link.latency_s) for link in custom_graph(3, 5e9, 1e-6, edges=edges).links]
    assert figures == [(7e9, 1e-6)] * 2 + [(5e9, 3e-6)] * 2


def test_a_graph_of_nodes_is_told_by_its_names() -> None:
    assert joined([Edge("gpu0", "a"), Edge("b", "a")]) == "gpu"
    assert joined([Edge("a", "node3")]) == "node"
    assert joined([Edge("nodes", "node", 1.0)]) == "gpu"
    assert custom_graph(2, 1.0, 0.0, edges=[Edge("node0", "node1")]).hops(1, 0) == 1


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ([("gpu0", "gpu0"), ("gpu0", "gpu1")], [("from gpu0 to itself", 0, "dst")]),
        ([("gpu0", "gpu1"), ("gpu1", "gpu0")], [("gpu1 to gpu0 is joined twice, also by edge 0", 1, "src")]),
        ([("gpu0", "gpu1"), ("gpu0", "gpu2")], [("there is no gpu2: the cluster has gpu0 to gpu1", 1, "dst")]),
        ([("gpu0", "node1"), ("node0", "node1")], [("gpu0 is mixed with nodes", 0, "src")]),
        ([("gpu0", "gpu1"), ("gpu01", "GPU 7")], [("not 'gpu01'", 1, "src"), ("not 'GPU 7'", 1, "dst")]),
        ([("gpu0", "sw")], [("not connected: no way leads from gpu0 to gpu1", None, "")]),
        ([("gpu0", "a"), ("gpu1", "b")], [("not connected: no way leads from gpu0 to gpu1", None, "")]),
        ([], [("not connected", None, "")]),
        (
            [("gpu0", "gpu0"), ("gpu9", "sw"), ("gpu1", "sw"), ("sw", "gpu1")],
            [("itself", 0, "dst"), ("no gpu9", 1, "src"), ("twice", 3, "src")],
        ),
    ],
)
def test_everything_wrong_is_found_at_once(
    edges: list[tuple[str, str]], found: list[tuple[str, int | None, str]]
) -> None:
    problems = edge_problems([Edge(*pair) for pair in edges], 2)
    assert [(problem.edge, problem.field) for problem in problems] == [(edge, field) for _, edge, field in found]
    for problem, (text, _, _) in zip(problems, found, strict=True):
        assert text in problem.message
    with pytest.raises(TopologyError) as caught:
        custom_graph(2, 1.0, 0.0, edges=[Edge(*pair) for pair in edges])
    assert caught.value.setting == "edges"


def test_one_way_graphs_need_a_way_back() -> None:
    there = [Edge("gpu0", "gpu1", bidirectional=False), Edge("gpu0", "gpu2")]
    assert "no way leads to gpu0 from gpu1" in edge_problems(there, 3)[0].message
    assert not edge_problems([*there, Edge("gpu1", "gpu2", bidirectional=False)], 3)


def test_many_lost_gpus_are_not_all_listed() -> None:
    (problem,) = edge_problems([Edge("gpu0", "gpu1")], 100)
    assert "gpu2, gpu3, gpu4, gpu5, gpu6, gpu7, gpu8, gpu9 … (98 in all)" in problem.message


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12), st.booleans())
def test_a_graph_without_problems_joins_every_pair(pairs: list[tuple[int, int]], both: bool) -> None:
    names = ["gpu0", "gpu1", "gpu2", "a", "b"]
    edges = [Edge(names[a], names[b], bidirectional=both) for a, b in pairs]
    if edge_problems(edges, 3):
        with pytest.raises(TopologyError):
            custom_graph(3, 1.0, 0.0, edges=edges)
    else:
        graph = custom_graph(3, 1.0, 0.0, edges=edges)
        assert all(graph.hops(a, b) > 0 for a in range(3) for b in range(3) if a != b)
