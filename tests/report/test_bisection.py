"""The bisection bandwidth: by theory, and against all halves of small networks, one maximum flow each."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from unittest.mock import patch

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.platform.custom_graph import Edge, custom_graph
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.nodes import Fabric, Nics, NodeInside, PcieTree, nodes_on_fabric
from simsys.platform.topology import Topology, TopologyError, full_mesh
from simsys.report import bisection as module
from simsys.report.bisection import Bisection, bisection


def build(kind: str, n: int, **options: Any) -> Topology:
    return TOPOLOGY_TYPES[kind](n, 10e9, 1e-6, **options)


def cluster(fabric: str, nodes: int, inside: str = "nvswitch", **options: Any) -> Topology:
    tree = PcieTree(2, 20e9, 0.0) if inside == "pcie_tree" else None
    return nodes_on_fabric(
        nodes, 4, NodeInside(inside, 100e9, 0.0, tree), Nics(2, 7e9, 0.0), Fabric(fabric, 14e9, 0.0, options)
    )


def by_brute_force(topology: Topology) -> float:
    """The least maximum flow from one half of the nodes to the other, over all halves and both directions."""
    graph = nx.DiGraph()
    for link in topology.links:
        before = graph.get_edge_data(link.src, link.dst, {"capacity": 0.0})["capacity"]
        graph.add_edge(link.src, link.dst, capacity=before + link.bytes_per_s)
    size = topology.node_size if topology.num_gpus > topology.node_size else 1
    nodes = topology.num_gpus // size
    least = float("inf")
    for few in {nodes // 2, nodes - nodes // 2}:
        for half in combinations(range(nodes), few):
            ends = graph.copy()
            for gpu in range(topology.num_gpus):
                ends.add_edge(*(("a", gpu) if gpu // size in half else (gpu, "b")))
            least = min(least, nx.maximum_flow_value(ends, "a", "b"))
    return float(least)


FLAT = [
    *((kind, n, {}) for kind in ("ring", "tree", "full_mesh", "switch", "torus_2d") for n in (2, 3, 4, 6, 7, 8)),
    ("torus_2d", 8, {"dims": (2, 4)}),
    ("torus_2d", 8, {"dims": (4, 2)}),
    ("torus_2d", 8, {"dims": (8, 1)}),
    ("torus_3d", 8, {}),
    ("torus_3d", 6, {"dims": (1, 2, 3)}),
    ("fat_tree", 8, {"radix": 4}),
    ("fat_tree", 6, {"leaf_size": 2, "oversubscription": 2}),
    ("fat_tree", 7, {"leaf_size": 3, "oversubscription": 3}),
    ("rail_optimized", 6, {"leaf_size": 2, "oversubscription": 2}),
    ("dragonfly", 6, {"nodes_per_router": 1, "routers_per_group": 2, "global_links_per_router": 1}),
    ("dragonfly", 8, {}),
]
CLUSTERS = [
    *((kind, 4, "nvswitch", {}) for kind in TOPOLOGY_TYPES if kind != "custom"),
    *((kind, 5, "pcie_tree", {}) for kind in ("switch", "ring", "tree")),
    ("rail_optimized", 5, "nvlink_mesh", {"leaf_size": 2, "oversubscription": 4}),
    ("fat_tree", 6, "pcie_switch", {"leaf_size": 2, "oversubscription": 2}),
    ("switch", 1, "pcie_tree", {}),
    ("switch", 1, "nvlink_mesh", {}),
]


def both() -> list[Any]:
    flat = [pytest.param(build(kind, n, **options), id=f"{kind}-{n}-{options}") for kind, n, options in FLAT]
    whole = [
        pytest.param(cluster(kind, n, inside, **o), id=f"{kind}-{n}x4-{inside}") for kind, n, inside, o in CLUSTERS
    ]
    return flat + whole


@pytest.mark.parametrize("topology", both())
def test_small_networks_of_every_kind_have_that_of_all_halves(topology: Topology) -> None:
    found = bisection(topology)
    assert found is not None
    assert found.exact
    assert found.bytes_per_s == pytest.approx(by_brute_force(topology), rel=1e-9)


@pytest.mark.parametrize("topology", both())
def test_the_search_finds_the_same_where_it_may_not_try_all(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = bisection(topology)
    monkeypatch.setattr(module, "MOST_HALVES", {True: 0, False: 0})
    found = bisection(topology)
    assert found is not None
    assert exact is not None
    assert exact.exact
    assert found.bytes_per_s == pytest.approx(exact.bytes_per_s, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "n", "options", "links", "exact"),
    [
        ("ring", 8, {}, 2, True),
        ("ring", 7, {}, 2, True),
        ("ring", 300, {}, 2, True),
        ("full_mesh", 8, {}, 16, True),  # n²/4
        ("full_mesh", 60, {}, 900, True),
        ("torus_2d", 16, {}, 8, True),  # 2·k for k x k
        ("torus_2d", 64, {}, 16, True),
        ("torus_2d", 16, {"dims": (2, 8)}, 4, True),  # across the longer side, twice two links
        ("torus_2d", 32, {"dims": (8, 4)}, 8, True),
        ("torus_3d", 64, {}, 32, True),  # 2·k²
        ("torus_3d", 32, {"dims": (2, 8, 2)}, 8, True),
        ("switch", 8, {}, 4, True),  # n/2
        ("switch", 501, {}, 250, True),
        ("tree", 16, {}, 1, True),  # 8 nodes are below one child
        ("tree", 15, {}, 1, True),
        ("fat_tree", 16, {"radix": 4}, 8, False),  # n/2: full bisection; three levels, so not proven
        ("fat_tree", 54, {"radix": 6}, 27, False),
        ("fat_tree", 16, {"leaf_size": 4, "oversubscription": 2}, 4, True),
        ("fat_tree", 16, {"leaf_size": 4, "oversubscription": 4}, 2, True),
        ("fat_tree", 256, {"leaf_size": 32, "oversubscription": 1}, 128, True),
    ],
)
def test_bisection_bandwidth_is_that_of_theory(
    kind: str, n: int, options: dict[str, Any], links: int, exact: bool
) -> None:
    found = bisection(build(kind, n, **options))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(links * 10e9, rel=1e-9)
    assert (found.exact, found.symmetric) == (exact, True)


def test_trees_of_any_shape_have_that_of_all_halves() -> None:
    """Sixteen nodes: 12,870 halves, whose links are counted."""
    tree = build("tree", 16)
    least = min(
        sum(link.src in half and link.dst not in half for link in tree.links)
        for half in map(set, combinations(range(16), 8))
    )
    assert bisection(tree) == Bisection(least * 10e9, True, True)


def test_oversubscription_of_a_cluster_shows_in_its_bisection() -> None:
    def of(oversubscription: float) -> Bisection | None:
        fabric = Fabric("fat_tree", 80e9, 1e-6, {"leaf_size": 2, "oversubscription": oversubscription})
        return bisection(nodes_on_fabric(8, 8, NodeInside("nvswitch", 1e12, 1e-6), Nics(8, 10e9, 1e-6), fabric))

    assert [of(ratio) for ratio in (1.0, 2.0, 4.0)] == [Bisection(rate, True, True) for rate in (320e9, 160e9, 80e9)]


def test_one_gpu_has_no_bisection_and_a_large_graph_none_either() -> None:
    assert bisection(build("ring", 1)) is None
    assert bisection(full_mesh(100, 1.0, 0.0)) is None  # 9,900 links


def test_cables_that_are_faster_in_one_direction_count_in_the_weaker_one() -> None:
    edges = [Edge("gpu0", "gpu1", 5.0, 0.0, bidirectional=False), Edge("gpu1", "gpu0", 3.0, 0.0, bidirectional=False)]
    assert bisection(custom_graph(2, 1.0, 0.0, edges=edges)) == Bisection(3.0, True, False)


@st.composite
def graphs(draw: st.DrawFn) -> Topology:
    """Connected graphs of GPUs and switches with some further cables, a few of them one-way."""
    gpus, switches = draw(st.integers(2, 7)), draw(st.integers(0, 3))
    names = [f"gpu{i}" for i in range(gpus)] + [f"sw{i}" for i in range(switches)]
    rate = st.sampled_from([1.0, 2.0, 5.0])
    edges = {(draw(st.integers(0, i - 1)), i): Edge(names[0], names[i], 1.0) for i in range(1, len(names))}
    edges = {(a, b): Edge(names[a], names[b], draw(rate), 0.0) for a, b in edges}
    for a, b in draw(st.lists(st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1)), max_size=6)):
        if a != b and (a, b) not in edges and (b, a) not in edges:
            edges[a, b] = Edge(names[a], names[b], draw(rate), 0.0, bidirectional=draw(st.booleans()))
    try:
        return custom_graph(gpus, 1.0, 0.0, edges=list(edges.values()))
    except TopologyError:  # a switch that nothing leads to is fine, a GPU is not
        return build("ring", gpus)


@pytest.mark.parametrize("halves", [{True: 40, False: 2_000}, {True: 0, False: 0}], ids=["all halves", "search"])
@given(graphs())
def test_graphs_of_any_kind_have_at_least_that_of_all_halves(halves: dict[bool, int], topology: Topology) -> None:
    """Equal where it is called exact, which rests on all halves, on a tree, or on a lower bound."""
    with patch.object(module, "MOST_HALVES", halves):
        found = bisection(topology)
    assert found is not None
    least = by_brute_force(topology)
    assert found.bytes_per_s >= least * (1 - 1e-9)
    if found.exact:
        assert found.bytes_per_s == pytest.approx(least, rel=1e-9)
