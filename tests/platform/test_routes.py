"""Routes: the same for ever, evenly spread, and in clusters inside nodes, out over NICs, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest

from simsys.errors import InfeasibleError, UsageError
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.fat_tree import fat_tree
from simsys.platform.node_topologies import INSIDE_KINDS
from simsys.platform.nodes import Fabric, Nics, NodeInside, PcieTree, nodes_on_fabric
from simsys.platform.platform import Platform
from simsys.platform.routing import Routing
from simsys.platform.topology import LinkSpec, Topology, ring, torus_2d
from simsys.testing.toys import toy_device

FABRICS = [kind for kind in TOPOLOGY_TYPES if kind != "custom"]
ONE_HASH = Routing("ecmp", qps=1)
TREE = PcieTree(2, 24e9, 1e-6, 2, 16e9, 1e-6)


def cluster(inside: str, fabric: str, nodes: int = 6, gpus: int = 4, nics: int = 2, **options: object) -> Topology:
    node = NodeInside(inside, 100e9, 1e-6, TREE if inside == "pcie_tree" else None)
    between = Fabric(fabric, 100e9, 1e-6, **options)  # type: ignore[arg-type]
    return nodes_on_fabric(nodes, gpus, node, Nics(nics, 25e9, 1e-6), between)


# --- which of several shortest paths ---


def test_a_hash_picks_one_of_the_paths_and_the_opposite_way_may_be_another() -> None:
    tree = replace(fat_tree(64, 1.0, 0.0, radix=16), routing=ONE_HASH)  # 8 leaves, 8 spines
    spines = {pair: tree.get_route(*pair)[2] for pair in [(0, dst) for dst in range(8, 64)]}
    assert set(spines.values()) == set(range(72, 80))
    back = {(src, dst): tree.get_route(dst, src)[2] for src, dst in spines}
    assert any(spines[pair] != back[pair] for pair in spines)


def test_shortest_takes_the_first_path_for_all() -> None:
    tree = replace(fat_tree(64, 1.0, 0.0, radix=16), routing=Routing("shortest"))
    assert {tree.get_route(src, dst)[2] for src in range(8) for dst in range(8, 64)} == {72}


@pytest.mark.parametrize(("n", "radix", "paths"), [(64, 16, 8), (128, 8, 16)])  # two levels, and three
def test_flows_spread_evenly_over_the_paths(n: int, radix: int, paths: int) -> None:
    """Chi-squared over all pairs of different pods (leaves): within five standard deviations of its expectation."""
    tree = replace(fat_tree(n, 1.0, 0.0, radix=radix), routing=ONE_HASH)
    far = tree.hops(0, n - 1)
    pairs = [(src, dst) for src in range(n) for dst in range(n) if tree.hops(src, dst) == far]
    used = Counter(tree.get_route(*pair)[far // 2] for pair in pairs)  # the top switch decides the path
    assert len(used) == paths
    expected = len(pairs) / paths
    chi_squared = sum((count - expected) ** 2 / expected for count in used.values())
    assert abs(chi_squared - (paths - 1)) < 5 * (2 * (paths - 1)) ** 0.5


@pytest.mark.parametrize("shift", [1, 8, 16, 32, 63])
def test_regular_patterns_do_not_meet_on_one_path(shift: int) -> None:
    """The flows of a ring or a shift use the uplinks about as evenly as chance would have it."""
    tree = replace(fat_tree(512, 1.0, 0.0, radix=32), routing=ONE_HASH)
    load = Counter(index for src in range(512) for index in tree.route(src, (src + shift) % 512))
    uplinks = [load[i] for i, link in enumerate(tree.links) if link.kind == "spine"]
    assert max(uplinks) <= 7


SCRIPT = """
from dataclasses import replace
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.routing import Routing
for kind in ("fat_tree", "rail_optimized", "dragonfly"):
    graph = replace(TOPOLOGY_TYPES[kind](100, 1.0, 0.0, per_node=4), routing=Routing("ecmp"))
    print([graph.way(src, (7 * src + 3) % 100) for src in range(100)])
"""


def test_routes_do_not_depend_on_the_hash_seed() -> None:
    seen = set()
    for seed in ("0", "1", "random"):
        command = [sys.executable, "-c", SCRIPT]
        found = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
        seen.add(found.stdout)
    assert len(seen) == 1
    assert len(seen.pop()) > 3000


def test_dimension_order_stays_the_default_of_a_torus() -> None:
    torus = torus_2d(16, 1.0, 0.0)
    assert torus.get_route(0, 5) == [0, 1, 5]
    both = {tuple(replace(torus, routing=ONE_HASH).get_route(src, src + 5)) for src in range(3)}
    assert {route[1] - route[0] for route in both} == {1, 4}


# --- clusters of nodes ---


@pytest.mark.parametrize("inside", INSIDE_KINDS)
@pytest.mark.parametrize("fabric", FABRICS)
def test_every_pair_is_joined_by_a_way_that_stays_inside_or_leaves_once(inside: str, fabric: str) -> None:
    graph = cluster(inside, fabric)
    fabric_vertices = {v for v in range(24, graph.num_vertices) if is_outside(graph.vertex_name(v))}
    for src in range(24):
        hops = graph.hops_from(src)
        assert list(hops) == list(range(24))
        for dst in range(24):
            way = graph.get_route(src, dst)
            links = [graph.links[index] for index in graph.route(src, dst)]
            assert [(link.src, link.dst) for link in links] == list(pairwise(way))
            assert len(links) == hops[dst] == graph.hops(dst, src)
            outside = [vertex in fabric_vertices for vertex in way]
            changes = sum(a != b for a, b in pairwise(outside))
            assert changes == (0 if src // 4 == dst // 4 else 2)
            assert len(set(way)) == len(way)
            nics = sum(link.kind == "nic" for link in links)
            assert nics == (0 if src // 4 == dst // 4 else 4)
            assert not {vertex // 4 for vertex in way if vertex < 24} - {src // 4, dst // 4}, "a third node forwards"


def is_outside(name: str) -> bool:
    return not name.startswith(("nvswitch", "pcie", "host", "nic", "shared memory"))


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("inside", ["nvswitch", "pcie_tree"])
def test_hops_counted_from_a_gpu_are_those_of_its_routes(inside: str, fabric: str) -> None:
    graph = cluster(inside, fabric, nodes=9, gpus=8, nics=4, pxn=fabric == "rail_optimized")
    for src in (0, 13, 71):
        assert graph.hops_from(src) == {dst: graph.hops(src, dst) for dst in range(72)}


@pytest.mark.parametrize("fabric", ["torus_2d", "full_mesh", "fat_tree"])
def test_equal_cost_paths_never_lead_out_of_a_node(fabric: str) -> None:
    graph = cluster("nvswitch", fabric, routing=ONE_HASH, nics=1)
    ways = [graph.route(src, dst) for src in range(4) for dst in range(4)]
    assert {graph.links[index].kind for way in ways for index in way} == {"nvswitch"}


def test_routes_between_switches_are_found_in_the_whole_graph() -> None:
    graph = cluster("nvswitch", "fat_tree")
    nvswitch, last = 24, graph.num_vertices - 1
    assert graph.get_route(nvswitch, 0) == [nvswitch, 0]
    assert graph.get_route(0, last)[-1] == last


def test_names_say_where_a_vertex_is() -> None:
    graph = cluster("pcie_tree", "rail_optimized")
    names = [graph.vertex_name(vertex) for vertex in range(graph.num_vertices)]
    assert len(set(names)) == len(names)
    assert {"gpu 3 of node 1", "pcie switch 1 of node 5", "host bridge 0 of node 0", "nic 1 of node 2"} <= set(names)
    assert {"port 1 of node 3", "leaf 0 of rail 1"} <= set(names)
    assert ring(4, 1.0, 0.0).vertex_name(3) == "gpu 3"
    assert Topology(1, 2, (), "bare").vertex_name(1) == "vertex 1"


# --- the platform ---


def test_the_platform_says_which_way_a_transfer_takes() -> None:
    graph = cluster("nvswitch", "fat_tree")
    platform = Platform([toy_device()] * 24, graph)
    assert platform.get_route(0, 23) == graph.get_route(0, 23)
    assert [graph.vertex_name(vertex) for vertex in platform.get_route(1, 2)][1] == "nvswitch of node 0"
    for pair in ((0, 24), (-1, 0), (24, 0)):
        with pytest.raises(UsageError, match="GPUs 0 to 23"):
            platform.get_route(*pair)


def test_links_of_a_run_have_names_and_figures() -> None:
    platform = Platform([toy_device()] * 24, cluster("nvswitch", "fat_tree"))
    platform.submit_network_transfer_task(0, 23, 1e6)
    platform.env.run()
    links = platform.link_statistics()
    rows = {
        row["from"]: row for row in (dict(zip(links, each, strict=True)) for each in zip(*links.values(), strict=True))
    }
    way, at = ["gpu 0 of node 0"], "gpu 0 of node 0"
    while at in rows:
        way.append(at := rows[at]["to"])
    assert way == [platform.network.topology.vertex_name(vertex) for vertex in platform.get_route(0, 23)]
    assert sum(links["nbytes"]) == pytest.approx(4 * 1e6 + 2 * 1e6)  # two NVLinks and NICs, and what spines share
    assert {row["kind"]: (row["bytes_per_s"], row["latency_s"]) for row in rows.values()}["leaf"] == (50e9, 1e-6)


# --- graphs with gaps ---


def test_what_cannot_be_reached_is_an_answer() -> None:
    apart = Topology(4, 4, tuple(LinkSpec(a, b, 1.0, 0.0, "x") for a, b in ((0, 1), (1, 0), (2, 3))), "two islands")
    with pytest.raises(InfeasibleError, match="no path leads from vertex 0 to vertex 2"):
        apart.route(0, 2)
    assert apart.hops_from(0) == {0: 0, 1: 1}
    lone = Topology(2, 2, (), "no links")
    assert lone.hops_from(1) == {1: 0}
    with pytest.raises(InfeasibleError, match="no path"):
        lone.route(0, 1)


@pytest.mark.parametrize("kind", ["fat_tree", "rail_optimized", "torus_3d", "ring"])
def test_routes_are_shortest_in_the_whole_graph(kind: str) -> None:
    graph = TOPOLOGY_TYPES[kind](60, 1.0, 0.0)
    reference = nx.DiGraph((link.src, link.dst) for link in graph.links)
    lengths = dict(nx.all_pairs_shortest_path_length(reference))
    assert all(graph.hops(src, dst) == lengths[src][dst] for src in range(60) for dst in range(60))
