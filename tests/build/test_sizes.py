"""Clusters that are too large to build are refused at once, whoever says how many GPUs a node has."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.build.cluster import build_cluster
from simsys.build.sizes import MAX_GPUS, MAX_MESH_LINKS, size_problem
from simsys.check import check_config
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError

MESH = {"kind": "nvlink_mesh", "bandwidth": "1 GB/s", "latency": "1 us"}
TREE = {"kind": "pcie_tree", "bandwidth": "1 GB/s", "latency": "1 us", "gpus_per_switch": 1}
SOCKETS = {**TREE, "sockets": 9000, "socket_link": {"bandwidth": "1 GB/s", "latency": "1 us"}}


@pytest.mark.parametrize(
    ("hardware", "path", "gpus"),
    [
        ({"profile": "dgx-a100", "num_nodes": 100_000}, "hardware.num_nodes", 800_000),
        ({"profile": "dgx-a100", "num_nodes": 100_000, "gpus_per_node": 2}, "hardware.num_nodes", 200_000),
        ({"gpu": "H100", "num_nodes": 100_000, "gpus_per_node": 2}, "hardware.num_nodes", 200_000),
        ({"gpu": "H100", "gpus_per_node": 200_000}, "hardware.gpus_per_node", 200_000),
        ({"nodes": [{"profile": "dgx-a100", "count": 100_000}]}, "hardware.nodes", 800_000),
        ({"nodes": [{"profile": "dgx-a100"}, {"profile": "gb200-nvl72", "count": 2000}]}, "hardware.nodes", 144_008),
        ({"profile": {"extends": "dgx-a100", "gpus_per_node": 900_000}}, "hardware.profile", 900_000),
        ({"profile": {"extends": "dgx-a100", "gpus_per_node": 900}, "num_nodes": 900}, "hardware.num_nodes", 810_000),
    ],
)
def test_gpus_are_counted_with_those_of_profiles(hardware: dict[str, Any], path: str, gpus: int) -> None:
    config = SimulationConfig(hardware=hardware, model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 1})
    (problem,) = check_config(config)
    assert problem.path == path
    assert problem.message.startswith(f"{gpus} GPUs are too many to simulate")
    assert f"at most {MAX_GPUS}" in problem.message
    with pytest.raises(ConfigError, match=f"{path}: {gpus} GPUs are too many"):  # without a check, from Python
        build_cluster(config.hardware, config.network)


@pytest.mark.parametrize(
    "hardware",
    [
        {"profile": {"extends": "dgx-a100", "gpus_per_node": 9000, "interconnect": MESH}},
        {"profile": {"extends": "dgx-a100", "gpus_per_node": 1000, "interconnect": MESH}, "num_nodes": 2},
        {"profile": {"extends": "dgx-a100", "gpus_per_node": 9000, "interconnect": SOCKETS}},
    ],
)
def test_links_between_all_pairs_inside_nodes_are_counted(hardware: dict[str, Any]) -> None:
    found = size_problem(HardwareConfig(**hardware), NetworkConfig())
    assert found is not None
    assert f"at most {MAX_MESH_LINKS}" in found[1]


def test_a_full_mesh_is_limited_by_its_links() -> None:
    mesh = NetworkConfig(topology_type="full_mesh")
    assert size_problem(HardwareConfig(gpu="H100", num_nodes=1024), mesh) is None
    assert size_problem(HardwareConfig(gpu="H100", num_nodes=2000), mesh) == (
        ("network", "topology_type"),
        "a full mesh joins at most 1049 nodes, not 2000; use switch, tree or torus_2d",
    )


def test_the_largest_systems_there_are_can_be_built() -> None:
    largest = HardwareConfig(profile="dgx-h100", num_nodes=MAX_GPUS // 8)
    assert size_problem(largest, NetworkConfig()) is None
    assert size_problem(HardwareConfig(profile="dgx-v100-cube", num_nodes=10_000), NetworkConfig()) is None


@pytest.mark.parametrize("nodes", [[{"profile": "dgx-a100"}, None], [None], [3], [{"profile": "dgx-a100"}, "x"]])
def test_an_entry_of_nodes_that_is_none_is_an_error_of_the_schema(nodes: list[Any]) -> None:
    with pytest.raises(ValueError, match="valid dictionary or instance of NodeGroup"):
        HardwareConfig(nodes=nodes)
