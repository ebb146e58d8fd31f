"""What joins the GPUs of a node: the wiring of a DGX-1, trees of PCIe switches, and where NICs hang."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simsys.build.cluster import build_cluster
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import load_node
from simsys.config.network import NetworkConfig
from simsys.config.node_schema import Interconnect
from simsys.config.validation import validate
from simsys.errors import ConfigError, UnknownNameError, UsageError
from simsys.platform.node_topologies import DGX1_NVLINKS, INSIDE_KINDS
from simsys.platform.nodes import Fabric, Nics, NodeInside, PcieTree, nodes_on_fabric
from simsys.platform.topology import Topology

CUBE = NodeInside("hybrid_cube_mesh", 20e9, 1.9e-6)
TREE = PcieTree(2, 24e9, 0.5e-6, 2, 16e9, 0.7e-6)
SWITCHED = Fabric("switch", 100e9, 1e-6)


def names(graph: Topology, src: int, dst: int) -> list[str]:
    return [graph.vertex_name(vertex).removesuffix(" of node 0") for vertex in graph.get_route(src, dst)]


# --- the hybrid cube mesh ---


def test_every_gpu_of_a_dgx1_has_six_nvlinks() -> None:
    ends = Counter[int]()
    for pair, count in DGX1_NVLINKS.items():
        ends.update(dict.fromkeys(pair, count))
    assert ends == dict.fromkeys(range(8), 6)


def test_the_cube_is_two_meshes_of_four_joined_at_the_corners() -> None:
    pairs = set(DGX1_NVLINKS)
    quads = {(a + base, b + base) for base in (0, 4) for a in range(4) for b in range(a + 1, 4)}
    assert pairs == quads | {(gpu, gpu + 4) for gpu in range(4)}


def test_a_double_link_has_twice_the_bandwidth_and_others_are_two_hops_apart() -> None:
    node = nodes_on_fabric(1, 8, CUBE)
    for a in range(8):
        for b in range(8):
            if a == b:
                continue
            count = DGX1_NVLINKS.get((min(a, b), max(a, b)), 0)
            assert node.hops(a, b) == (1 if count else 2)
            if count:
                assert node.links[node.route(a, b)[0]].bytes_per_s == count * 20e9


def test_a_part_of_a_cube_is_its_first_gpus() -> None:
    assert len(nodes_on_fabric(1, 4, CUBE).links) == 12
    with pytest.raises(UsageError, match="up to 8 GPUs, not 9"):
        nodes_on_fabric(1, 9, CUBE)


# --- PCIe trees ---


def tree(nodes: int = 1, gpus: int = 8, nics: int = 4, shape: PcieTree = TREE) -> Topology:
    inside = NodeInside("pcie_tree", 24e9, 1e-6, shape)
    return nodes_on_fabric(nodes, gpus, inside, Nics(nics, 25e9, 1e-6), SWITCHED)


@pytest.mark.parametrize(
    ("dst", "way"),
    [
        (1, ["pcie switch 0"]),
        (2, ["pcie switch 0", "host bridge 0", "pcie switch 1"]),
        (4, ["pcie switch 0", "host bridge 0", "host bridge 1", "pcie switch 2"]),
        (7, ["pcie switch 0", "host bridge 0", "host bridge 1", "pcie switch 3"]),
    ],
)
def test_traffic_goes_up_the_tree_as_far_as_it_must(dst: int, way: list[str]) -> None:
    graph = tree()
    assert names(graph, 0, dst) == ["gpu 0", *way, f"gpu {dst}"]
    kinds = [graph.links[index].kind for index in graph.route(0, dst)]
    assert kinds == ["pcie_tree", *["host_bridge"] * (2 if len(way) > 1 else 0), "pcie_tree"] or "socket" in kinds
    assert ("socket" in kinds) == (dst >= 4)


def test_each_link_of_the_tree_has_its_figures() -> None:
    figures = {(link.kind, link.bytes_per_s, link.latency_s) for link in tree().links}
    assert figures == {("pcie_tree", 24e9, 1e-6), ("host_bridge", 24e9, 0.5e-6), ("socket", 16e9, 0.7e-6)}
    assert Counter(link.kind for link in tree().links) == {"pcie_tree": 16, "host_bridge": 8, "socket": 2}


@pytest.mark.parametrize(("nics", "cards"), [(1, [0] * 8), (2, [0] * 4 + [2] * 4), (4, [0, 0, 1, 1, 2, 2, 3, 3])])
def test_nics_are_spread_over_the_switches_and_shared(nics: int, cards: list[int]) -> None:
    graph = tree(2, nics=nics)
    for gpu in range(8):
        way = names(graph, gpu, 8)
        card = next(i for i, name in enumerate(way) if name.startswith("nic"))
        assert way[card] == f"nic {gpu * nics // 8}"
        assert way[card - 1] == f"pcie switch {cards[gpu]}"
        bridges = [name for name in way[:card] if name.startswith("host bridge")]
        same_socket = gpu // 4 == cards[gpu] // 2
        assert len(bridges) == (0 if gpu // 2 == cards[gpu] else 1 if same_socket else 2)


def test_as_many_nics_as_gpus_still_hang_on_the_switches() -> None:
    graph = tree(2, nics=8)
    assert [names(graph, gpu, 8)[:3] for gpu in (0, 3)] == [
        ["gpu 0", "pcie switch 0", "nic 0"],
        ["gpu 3", "pcie switch 1", "nic 3"],
    ]


def test_gpus_of_one_switch_share_its_nic() -> None:
    graph = tree(2)
    assert graph.route(0, 8)[1:] == graph.route(1, 8)[1:]
    assert set(graph.route(0, 8)).isdisjoint(graph.route(2, 8)[:4])


def test_a_socket_without_a_switch_is_left_out() -> None:
    one = tree(gpus=2, nics=1, shape=PcieTree(4, 24e9, 1e-6, 2, 16e9, 1e-6))
    assert [name for name in one.names if name.startswith("host")] == ["host bridge 0 of node 0"]


def test_a_tree_without_its_shape_or_of_odd_counts_is_refused() -> None:
    with pytest.raises(UsageError, match="needs its shape"):
        nodes_on_fabric(1, 4, NodeInside("pcie_tree", 24e9, 1e-6))
    with pytest.raises(UsageError, match="gpus_per_switch must be at least 1"):
        tree(shape=PcieTree(0, 24e9, 1e-6))
    with pytest.raises(UsageError, match="bandwidth must be positive"):
        tree(shape=PcieTree(2, 24e9, 1e-6, 2))


def test_every_kind_is_joined_and_others_are_unknown() -> None:
    for kind in INSIDE_KINDS:
        node = nodes_on_fabric(1, 6, NodeInside(kind, 1e9, 0.0, TREE if kind == "pcie_tree" else None))
        assert len(node.hops_from(5)) == 6
    with pytest.raises(UnknownNameError, match="did you mean 'hybrid_cube_mesh'"):
        nodes_on_fabric(1, 6, NodeInside("hybrid_cube", 1e9, 0.0))


# --- in profiles ---


@pytest.mark.parametrize("name", ["dgx-v100-cube", "pcie-tree-l40s-8"])
def test_shipped_profiles_of_these_kinds_build(name: str) -> None:
    node = load_node(name)
    graph = build_cluster(HardwareConfig(profile=name, num_nodes=2), NetworkConfig()).topology
    assert node.interconnect.kind in {link.kind for link in graph.links}
    assert len(graph.hops_from(0)) == 16


def test_the_tree_of_a_profile_is_the_one_built() -> None:
    graph = build_cluster(HardwareConfig(profile="pcie-tree-l40s-8"), NetworkConfig()).topology
    link = load_node("pcie-tree-l40s-8").interconnect
    assert link.socket_link is not None
    sockets = [each for each in graph.links if each.kind == "socket"]
    assert {(each.bytes_per_s, each.latency_s) for each in sockets} == {
        (link.socket_link.bandwidth, link.socket_link.latency)
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "nvswitch", "sockets": 2}, "sockets belongs to kind: pcie_tree, not to nvswitch"),
        ({"kind": "pcie_tree"}, "needs gpus_per_switch"),
        ({"kind": "pcie_tree", "gpus_per_switch": 2, "sockets": 2}, "several sockets need a socket_link"),
        ({"kind": "pcie_tree", "gpus_per_switch": 0}, "at least 1"),
        ({"kind": "cube"}, "'cube' is not one of"),
    ],
)
def test_profiles_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate({"bandwidth": "24 GB/s", "latency": "1 us", **fields}, Interconnect)
