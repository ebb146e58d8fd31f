"""Fat trees and rails against the counts and distances of theory."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from simsys.platform.fat_tree import fat_tree, rail_optimized
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import Topology, TopologyError

BANDWIDTH, LATENCY = 50e9, 500e-9
NVSWITCH = NodeInside("nvswitch", 450e9, 1e-6)


def tree(n: int, **options: float) -> Topology:
    return fat_tree(n, BANDWIDTH, LATENCY, **options)  # type: ignore[arg-type]


def kinds(graph: Topology) -> Counter[str]:
    """Names of switches without their numbers, counted."""
    return Counter(name.split()[0] for name in graph.names)


@pytest.mark.parametrize("k", [4, 6, 8])
def test_a_k_ary_fat_tree_has_the_switches_and_links_of_theory(k: int) -> None:
    """Al-Fares et al. 2008: k pods of k/2 leaves and k/2 spines, (k/2)² cores, k³/4 hosts, all links alike."""
    n = k**3 // 4
    graph = tree(n, radix=k)
    assert kinds(graph) == {"leaf": k * k // 2, "spine": k * k // 2, "core": k * k // 4}
    assert len(graph.links) == 2 * 3 * n
    degree = Counter(link.src for link in graph.links)
    assert all(degree[switch] == k for switch in range(n, graph.num_vertices))
    assert {(link.bytes_per_s, link.latency_s) for link in graph.links} == {(BANDWIDTH, LATENCY)}


@pytest.mark.parametrize("k", [4, 6, 8])
def test_hops_of_a_k_ary_fat_tree_depend_on_leaf_and_pod_only(k: int) -> None:
    half, n = k // 2, k**3 // 4
    graph = tree(n, radix=k)
    for src in range(0, n, 3):
        for dst in range(n):
            if src == dst:
                hops = 0
            elif src // half == dst // half:
                hops = 2
            elif src // half**2 == dst // half**2:
                hops = 4
            else:
                hops = 6
            assert graph.hops(src, dst) == hops == graph.hops(dst, src)


@pytest.mark.parametrize(
    ("n", "options", "leaves", "spines", "cores"),
    [
        (32, {}, 1, 0, 0),
        (33, {}, 2, 17, 0),  # two leaves of 17
        (64, {}, 2, 32, 0),
        (2048, {}, 64, 32, 0),  # the most on two levels of 64 ports: 64²/2
        (2049, {"leaf_size": 32}, 65, 96, 1024),  # three pods
        (16, {"leaf_size": 4}, 4, 4, 0),
        (16, {"leaf_size": 4, "oversubscription": 2}, 4, 2, 0),
        (16, {"leaf_size": 4, "oversubscription": 3}, 4, 2, 0),
        (16, {"leaf_size": 4, "oversubscription": 4.0}, 4, 1, 0),
        (16, {"leaf_size": 4, "oversubscription": 0.5}, 4, 8, 0),
    ],
)
def test_as_many_levels_as_needed(n: int, options: dict[str, float], leaves: int, spines: int, cores: int) -> None:
    assert kinds(tree(n, **options)) == +Counter({"leaf": leaves, "spine": spines, "core": cores})


@pytest.mark.parametrize("oversubscription", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 7.0])
def test_oversubscription_is_downlinks_over_uplinks_in_bandwidth(oversubscription: float) -> None:
    graph = tree(64, leaf_size=8, oversubscription=oversubscription)
    for leaf in range(64, 72):
        down = sum(link.bytes_per_s for link in graph.links if link.src == leaf and link.dst < 64)
        up = sum(link.bytes_per_s for link in graph.links if link.src == leaf and link.dst > leaf)
        assert down / up == pytest.approx(oversubscription, rel=1e-12)
    assert max(link.bytes_per_s for link in graph.links) <= BANDWIDTH * (1 + 1e-12)


def test_spines_of_three_levels_have_as_much_up_as_down() -> None:
    graph = tree(96, radix=8, oversubscription=1.5, leaf_size=4)
    flow: Counter[tuple[int, bool]] = Counter()
    first_spine = 96 + kinds(graph)["leaf"]
    for link in graph.links:
        if link.src >= first_spine and "spine" in graph.vertex_name(link.src):
            flow[link.src, link.dst > link.src] += round(link.bytes_per_s)
    assert {flow[spine, True] / flow[spine, False] for spine, _ in flow} == {1.0}


def test_all_ports_of_a_node_hang_on_one_leaf() -> None:
    graph = fat_tree(64, BANDWIDTH, LATENCY, per_node=8, leaf_size=2)
    leaf_of = {link.src: link.dst for link in graph.links if link.src < 64}
    assert [leaf_of[port] - 64 for port in range(64)] == [port // 16 for port in range(64)]


# --- rails ---


def test_port_i_of_each_node_is_on_rail_i() -> None:
    graph = rail_optimized(64, BANDWIDTH, LATENCY, per_node=8, leaf_size=4)
    leaf_of = {link.src: graph.vertex_name(link.dst) for link in graph.links if link.src < 64}
    for port in range(64):
        assert leaf_of[port] == f"leaf {port // 8 // 4} of rail {port % 8}"
    assert kinds(graph) == {"leaf": 16, "spine": 4}


@pytest.mark.parametrize(("pxn", "other_rail"), [(True, 6), (False, 6)])
def test_rails_keep_equal_places_one_switch_apart(pxn: bool, other_rail: int) -> None:
    graph = rails(4, pxn=pxn)
    for place in range(8):
        assert graph.hops(place, 8 + place) == 4  # GPU, port, leaf, port, GPU
        assert graph.hops(place, 8 + (place + 3) % 8) == other_rail


def rails(nodes: int, *, pxn: bool, nics: int = 8) -> Topology:
    fabric = Fabric("rail_optimized", nics * BANDWIDTH, LATENCY, {"leaf_size": 4}, pxn=pxn)
    return nodes_on_fabric(nodes, 8, NVSWITCH, Nics(nics, BANDWIDTH, LATENCY), fabric)


@pytest.mark.parametrize("nics", [8, 4])
def test_with_pxn_traffic_changes_the_rail_inside_its_own_node(nics: int) -> None:
    graph = rails(4, pxn=True, nics=nics)
    for src in range(8):
        for dst in range(8, 32):
            names = [graph.vertex_name(vertex) for vertex in graph.get_route(src, dst)]
            same_rail = src * nics // 8 == dst % 8 * nics // 8
            assert not any(name.startswith("spine") for name in names)
            assert ("nvswitch of node 0" in names) == (not same_rail)
            if not same_rail:
                assert names[2] == f"gpu {dst % 8} of node 0"
            assert not any(name.startswith("nvswitch") for name in names[3:])


def test_without_pxn_it_takes_a_spine() -> None:
    graph = rails(4, pxn=False)
    for dst in range(9, 16):
        names = [graph.vertex_name(vertex) for vertex in graph.get_route(0, dst)]
        assert [name.split()[0] for name in names] == ["gpu", "port", "leaf", "spine", "leaf", "port", "gpu"]
    assert {len(graph.way(src, 8 + (src + shift) % 8)[2]) for src in range(8) for shift in range(1, 8)} == {4}


def test_units_are_joined_by_spines() -> None:
    graph = rails(8, pxn=True)
    names = [graph.vertex_name(vertex) for vertex in graph.get_route(3, 7 * 8 + 3)]
    assert [name.split()[0] for name in names] == ["gpu", "port", "leaf", "spine", "leaf", "port", "gpu"]
    assert (names[2], names[4]) == ("leaf 0 of rail 3", "leaf 1 of rail 3")


# --- bad input ---


@pytest.mark.parametrize("build", [fat_tree, rail_optimized])
@pytest.mark.parametrize(
    ("options", "setting", "message"),
    [
        ({"oversubscription": 0.0}, "oversubscription", "must be positive"),
        ({"oversubscription": -2.0}, "oversubscription", "must be positive"),
        ({"oversubscription": math.nan}, "oversubscription", "must be positive"),
        ({"oversubscription": math.inf}, "oversubscription", "must be positive"),
        ({"leaf_size": 100}, "leaf_size", "a leaf of 100 nodes needs 100 ports down and 100 up"),
        ({"leaf_size": 40}, "leaf_size", "40 ports down and 40 up, but a switch has 64"),
        ({"radix": 2}, "radix", "too many for three levels of switches with 2 ports"),
        ({"radix": 8, "leaf_size": 1}, "radix", "at most 32; give a larger radix"),
    ],
)
def test_trees_that_cannot_be_built_name_the_setting(
    build: type[Topology], options: dict[str, float], setting: str, message: str
) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        build(200, BANDWIDTH, LATENCY, **options)  # type: ignore[arg-type]
    assert caught.value.setting == setting
