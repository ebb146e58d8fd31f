"""The network section of an experiment: each setting reaches the links, and what does not fit is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.cluster import build_cluster
from simsys.check import check_config
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology
from simsys.report.export import write_results

TRAINING: dict[str, Any] = {
    "hardware": {"profile": "dgx-h100", "num_nodes": 4, "fabric": "infiniband-ndr"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}
FLY = ("nodes_per_router", "routers_per_group", "global_links_per_router")
STAR = [{"from": f"node{node}", "to": "core", "bandwidth": "100 GB/s"} for node in range(4)]


def built(network: dict[str, Any], **hardware: Any) -> Topology:
    settings = HardwareConfig(**{**TRAINING["hardware"], **hardware})
    return build_cluster(settings, NetworkConfig.model_validate(network)).topology


def problems(network: dict[str, Any], **hardware: Any) -> list[tuple[str, str]]:
    data = {**TRAINING, "hardware": {**TRAINING["hardware"], **hardware}, "network": network}
    return [(problem.path, problem.message) for problem in check_config(SimulationConfig.model_validate(data))]


def switches(graph: Topology) -> Counter[str]:
    return Counter(name.split()[0] for name in graph.names)


# --- what settings do ---


def test_a_fat_tree_by_settings_is_the_one_of_the_platform() -> None:
    own = built({"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 2, "base_latency": "7 us"})
    fabric = Fabric("fat_tree", 8 * 48e9, 7e-6, {"leaf_size": 2, "oversubscription": 2.0})
    assert own == nodes_on_fabric(4, 8, NodeInside("nvswitch", 370.8e9, 300e-9), Nics(8, 48e9, 1.2e-6), fabric)


def test_the_number_of_ports_is_that_of_the_fabric_profile_unless_it_is_given() -> None:
    for fabric, spines in (("infiniband-edr", 16), ("infiniband-ndr", 32), ("infiniband-xdr", 0)):
        assert switches(built({"topology_type": "fat_tree"}, num_nodes=8, fabric=fabric))["spine"] == spines
    assert switches(built({"topology_type": "fat_tree", "radix": 16}, num_nodes=8))["spine"] == 8


@pytest.mark.parametrize(("pxn", "spine"), [(None, False), (True, False), (False, True)])
def test_rails_are_changed_inside_the_node_unless_pxn_is_off(pxn: bool | None, spine: bool) -> None:
    graph = built({"topology_type": "rail_optimized", "pxn": pxn})
    names = [graph.vertex_name(vertex) for vertex in graph.get_route(0, 9)]
    assert any(name.startswith("spine") for name in names) == spine


def test_dimensions_and_shapes_are_those_given() -> None:
    torus = built({"topology_type": "torus_3d", "dims": [1, 2, 6]}, num_nodes=12)
    assert max(torus.hops_from(0).values()) == 2 + 1 + 3
    fly = built(
        {"topology_type": "dragonfly", "nodes_per_router": 1, "routers_per_group": 2, "global_links_per_router": 1}
    )
    assert sorted({name for name in fly.names if "router" in name})[-1] == "router 1 of group 1"


@pytest.mark.parametrize(
    ("topology_type", "default"),
    [("switch", "shortest"), ("torus_2d", "shortest"), ("fat_tree", "adaptive"), ("dragonfly", "adaptive")],
)
def test_the_routing_is_that_of_the_topology_unless_it_is_given(topology_type: str, default: str) -> None:
    assert built({"topology_type": topology_type}).routing.kind == default
    assert built({"topology_type": topology_type, "routing": "shortest"}).routing == Routing("shortest")
    hashes = {"kind": "ecmp", "seed": 3, "qps": 1}
    assert built({"topology_type": topology_type, "routing": hashes}).routing == Routing("ecmp", 3, 1)


def test_a_graph_of_nodes_joins_nodes_with_their_own_insides_and_nics() -> None:
    graph = built({"topology_type": "custom", "edges": STAR})
    names = [graph.vertex_name(vertex) for vertex in graph.get_route(0, 31)]
    assert names == ["gpu 0 of node 0", "router of node 0", "core", "router of node 3", "gpu 7 of node 3"]
    assert graph.hops(0, 7) == 2
    assert {link.bytes_per_s for link in graph.links if link.kind == "custom"} == {100e9}


def test_a_graph_of_gpus_is_all_there_is() -> None:
    edges = [{"from": f"gpu{gpu}", "to": f"leaf{gpu // 2}"} for gpu in range(4)]
    edges += [{"from": f"leaf{leaf}", "to": "spine", "bandwidth": "9 GB/s"} for leaf in range(2)]
    network = {"topology_type": "custom", "edges": edges, "link_bandwidth": "3 GB/s", "routing": "shortest"}
    graph = built(network, gpus_per_node=2, num_nodes=2)
    assert (graph.num_gpus, graph.node_size, graph.names) == (4, 2, ("leaf0", "leaf1", "spine"))
    assert (graph.hops(0, 1), graph.hops(0, 2), graph.routing.kind) == (2, 4, "shortest")
    assert {link.bytes_per_s for link in graph.links} == {3e9, 9e9}


# --- what does not fit ---


@pytest.mark.parametrize(
    ("network", "path", "message"),
    [
        ({"topology_type": "torus_2d", "dims": [3, 4]}, "network.dims", "12 places, but there are 4 to fill"),
        ({"topology_type": "torus_3d", "dims": [4, 1, 2]}, "network.dims", "e.g. dims: [1, 2, 2]"),
        ({"topology_type": "fat_tree", "leaf_size": 9}, "network.leaf_size", "needs 72 ports down"),
        ({"topology_type": "rail_optimized", "radix": 2}, "network.radix", "too many for three levels"),
        (
            {
                "topology_type": "dragonfly",
                "nodes_per_router": 1,
                "routers_per_group": 1,
                "global_links_per_router": 1,
            },
            "network.global_links_per_router",
            "theirs join 2",
        ),
        ({"topology_type": "custom", "edges": STAR[:3]}, "network.edges", "no way leads from node0 to node3"),
    ],
)
def test_a_setting_that_does_not_fit_the_cluster_is_named(network: dict[str, Any], path: str, message: str) -> None:
    ((found, text),) = problems(network)
    assert found == path
    assert message in text


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"dims": [2, 2]}, "dims belongs to topology_type torus_2d or torus_3d, not to switch"),
        (
            {"topology_type": "torus_2d", "leaf_size": 2},
            "leaf_size belongs to topology_type fat_tree or rail_optimized",
        ),
        ({"topology_type": "fat_tree", "pxn": True}, "pxn belongs to topology_type rail_optimized, not to fat_tree"),
        ({"topology_type": "torus_2d", "dims": [2, 2, 1]}, "a torus_2d has 2 sides, not 3"),
        ({"topology_type": "torus_2d", "dims": [0, 4]}, "greater than 0"),
        ({"topology_type": "fat_tree", "oversubscription": 0}, "greater than or equal to 0.1"),
        ({"topology_type": "fat_tree", "radix": 5000}, "less than or equal to 1024"),
        ({"topology_type": "mesh"}, "Input should be"),
        ({"topology_type": "ring", "routing": "adaptative"}, "Input should be 'adaptive', 'per_packet', 'ecmp' or"),
        ({"routing": {"kind": "adaptive", "qps": 2}}, "qps belongs to kind ecmp, not to adaptive"),
    ],
)
def test_settings_of_other_topologies_and_odd_values_are_refused(network: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkConfig.model_validate(network)


def test_advice_does_not_redraw_a_graph() -> None:
    """More GPUs would need more edges, so that is no remedy."""
    edges = [{"from": "gpu0", "to": "gpu1"}]
    data = {
        "hardware": {"gpu": "H100-SXM", "gpus_per_node": 2},
        "network": {"topology_type": "custom", "edges": edges},
        "model": {"name": "Llama3-70B"},
        "serving": {},
        "workload": {
            "arrivals": {"kind": "all_at_once"},
            "prompt_tokens": 10,
            "output_tokens": 10,
            "num_requests": 1,
        },
    }
    (problem,) = check_config(SimulationConfig.model_validate(data))
    assert "does not fit" in problem.message
    assert "gpus_per_node" not in problem.message


# --- the files of a run ---


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_links_are_written_with_names_where_they_carry_anything(tmp_path: Path, lod: str) -> None:
    data = {
        **TRAINING,
        "name": "t",
        "network": {"topology_type": "fat_tree", "leaf_size": 1},
        "simulation": {"lod": lod},
    }
    config = SimulationConfig.model_validate(data)
    files = {path.name: path for path in write_results(config, DistributedAISimulator(config).run(), tmp_path)}
    assert ("t_links.csv" in files) == (lod == "high")
    if lod == "high":
        lines = files["t_links.csv"].read_text(encoding="utf-8").splitlines()
        assert lines[0] == "src,dst,from,to,kind,bytes_per_s,latency_s,nbytes,protocol_nbytes,utilization,queued_s"
        assert any("leaf 0,spine" in line for line in lines)


@pytest.mark.parametrize("topology_type", ["fat_tree", "rail_optimized", "dragonfly"])
def test_high_and_medium_agree_where_steps_share_no_uplink(topology_type: str) -> None:
    network = {"topology_type": topology_type, "link_bandwidth": "10 GB/s", "tuning": "none"}
    times = []
    for lod in ("high", "medium"):
        data = {**TRAINING, "network": network, "simulation": {"lod": lod}}
        times.append(DistributedAISimulator(SimulationConfig.model_validate(data)).run().metrics["mean_iteration_s"])
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_a_written_scenario_finds_its_edges_again(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("from,to\n" + "".join(f"node{i},sw\n" for i in range(4)), encoding="utf-8")
    for network in ({"edges_file": "g.csv"}, {"edges": STAR}):
        data = {**TRAINING, "name": "t", "parallelism": {"strategy": "DDP"}}
        config = SimulationConfig.model_validate({**data, "network": {"topology_type": "custom", **network}})
        config.located_in(tmp_path)
        out = tmp_path / "somewhere" / "deep"
        write_results(config, DistributedAISimulator(config).run(), out)
        again = SimulationConfig.from_yaml(out / "t" / "t_config.yaml")
        topologies = [build_cluster(each.hardware, each.network, each.folder).topology for each in (config, again)]
        assert topologies[0] == topologies[1]
