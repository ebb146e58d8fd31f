"""Which links a degradation means, what they can do when, and which GPUs it tells apart."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.degradations import node_of, selected
from simsys.config.cluster import HardwareConfig
from simsys.config.imperfections import LinkSelector
from simsys.config.network import NetworkConfig


def cluster_with(*degradations: dict[str, Any], topology: str = "rail_optimized", nodes: int = 4) -> Cluster:
    network = NetworkConfig(topology_type=topology, degradations=list(degradations))
    return build_cluster(HardwareConfig(profile="dgx-v100", num_nodes=nodes), network)


def names(cluster: Cluster, **selector: Any) -> set[tuple[str, str]]:
    topology = cluster.topology
    links = [topology.links[index] for index in selected(LinkSelector.model_validate(selector), topology, "links")]
    return {(topology.vertex_name(link.src), topology.vertex_name(link.dst)) for link in links}


def test_links_are_meant_by_kind_node_ends_and_number() -> None:
    cluster = cluster_with()
    topology = cluster.topology
    whole = names(cluster, kind="nic")
    assert whole == {
        (topology.vertex_name(link.src), topology.vertex_name(link.dst))
        for link in topology.links
        if link.kind == "nic"
    }
    in_two = names(cluster, kind="nic", nodes=[2])
    assert in_two < whole
    assert all("of node 2" in a or "of node 2" in b for a, b in in_two)
    assert len(in_two) == len(whole) / 4
    sent, received = names(cluster, **{"from": "nic 1 of node 2"}), names(cluster, to="nic 1 of node 2")
    assert {(b, a) for a, b in sent} == received
    assert names(cluster, **{"from": "nic 1 of node 2"}, kind="nic", nodes=[2]) == sent
    first = topology.links[0]
    assert names(cluster, ids=[0]) == {(topology.vertex_name(first.src), topology.vertex_name(first.dst))}


def test_everything_inside_a_node_belongs_to_it_and_leaves_to_none() -> None:
    topology = cluster_with().topology
    for vertex in range(topology.num_vertices):
        name = topology.vertex_name(vertex)
        assert node_of(topology, vertex) == (int(name.rsplit(" ", 1)[1]) if " of node " in name else None)


def test_a_link_is_weak_in_each_period_and_factors_multiply() -> None:
    first = {"links": {"ids": [0]}, "from": "10 s", "until": "30 s", "bandwidth": 0.5, "latency_factor": 2}
    second = {"links": {"ids": [0, 1]}, "from": "20 s", "bandwidth": 0.1}
    plain, cluster = cluster_with().topology.links, cluster_with(first, second)
    assert cluster.topology.links == plain
    found = [cluster.links[0].at(time_s) for time_s in (0.0, 15.0, 25.0, 35.0)]
    assert [link.bytes_per_s / plain[0].bytes_per_s for link in found] == pytest.approx([1.0, 0.5, 0.05, 0.1])
    assert [link.latency_s / plain[0].latency_s for link in found] == pytest.approx([1.0, 2.0, 2.0, 1.0])
    assert set(cluster.links) == {0, 1}


def test_a_link_that_is_always_weak_is_another_link() -> None:
    cluster = cluster_with({"links": {"ids": [0]}, "bandwidth": 0.5})
    assert cluster.links == {}
    assert cluster.topology.links[0].bytes_per_s == pytest.approx(cluster_with().topology.links[0].bytes_per_s / 2)


@pytest.mark.parametrize(
    ("links", "kinds"),
    [
        ({"kind": "nic"}, 1),  # all of them alike
        ({"kind": "nic", "nodes": [2]}, 1 + 8),  # the GPUs of node 2, by their places
        ({"kind": "nic", "nodes": [1, 2]}, 1 + 8),  # two nodes alike
        ({"from": "nic 1 of node 2", "kind": "nic"}, 1 + 8),
        ({"from": "leaf 0 of rail 1"}, 32),  # between nodes: it may matter to any pair
    ],
    ids=str,
)
def test_gpus_are_told_apart_as_far_as_the_weak_links_do(links: dict[str, Any], kinds: int) -> None:
    assert len(set(cluster_with({"links": links, "bandwidth": 0.5}).kinds())) == kinds


def test_on_one_node_each_gpu_of_it_may_be_concerned() -> None:
    weak = {"links": {"kind": "nvswitch", "from": "gpu 0 of node 0"}, "bandwidth": 0.5}
    cluster = build_cluster(HardwareConfig(profile="dgx-a100"), NetworkConfig(degradations=[weak]))
    assert len(set(cluster.kinds())) == 8
