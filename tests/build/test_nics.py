"""Network cards: what is written of them counts, capped by the fabric, or is refused; older keys are explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.cluster import Cluster, build_cluster
from simsys.build.nics import described_nics, limited_nics, simulated_nics
from simsys.check import check_config, check_file
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import load_fabric, load_node
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError
from simsys.platform.nodes import Nics
from tests.helpers.places import ROOT

H100 = {"profile": "dgx-h100", "num_nodes": 2}
GPUS = {"gpu": "H100-SXM", "num_nodes": 2, "gpus_per_node": 4}
LONE = {"gpu": "H100-SXM", "num_nodes": 4, "gpus_per_node": 1}
TRAINING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}


def built(hardware: dict[str, Any], network: dict[str, Any] | None = None) -> Cluster:
    return build_cluster(HardwareConfig(**hardware), NetworkConfig.model_validate(network or {}))


def nic_links(cluster: Cluster) -> set[tuple[int, float, float]]:
    """NICs of a node, and bandwidth and latency of each."""
    links = [link for link in cluster.topology.links if link.kind == "nic" and link.latency_s >= 0.0]
    ports = [name for name in cluster.topology.names if name.startswith(("port", "router")) and "node 0" in name]
    return {(len(ports), link.bytes_per_s, link.latency_s) for link in links}


def config(hardware: dict[str, Any], **more: Any) -> SimulationConfig:
    return SimulationConfig(**{**TRAINING, "hardware": hardware, **more})


# --- which figure counts ---


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        (H100, (8, 48e9, 1.2e-6)),
        ({**H100, "gpus_per_node": 2}, (2, 48e9, 1.2e-6)),
        ({**H100, "nic": {"bandwidth": "400 Gb/s"}}, (8, 50e9, 1.2e-6)),
        ({**H100, "nic": {"bandwidth": "400 Gb/s", "count": 8}}, (8, 50e9, 1.2e-6)),
        ({**H100, "nic": {"latency": "3 us"}}, (8, 48e9, 3e-6)),
        ({**H100, "nic": {"bandwidth": "200 Gb/s", "count": 16}}, (8, 50e9, 1.2e-6)),  # two for each GPU
        ({**GPUS, "nic": {"bandwidth": "10 GB/s"}}, (4, 10e9, 130e-9)),
        ({**GPUS, "fabric": "infiniband-edr", "nic": {"latency": "0 s"}}, (4, 12.5e9, 0.0)),
        ({**H100, "fabric": "infiniband-ndr"}, (8, 48e9, 1.2e-6)),  # its ports are faster
        ({**H100, "fabric": "infiniband-edr"}, (8, 12.5e9, 1.2e-6)),
        ({**H100, "fabric": "ethernet-25g", "nic": {"bandwidth": "100 Gb/s"}}, (8, 3.125e9, 1.2e-6)),
        ({**H100, "fabric": "infiniband-edr", "nic": {"bandwidth": "200 Gb/s", "count": 16}}, (8, 25e9, 1.2e-6)),
        ({**H100, "network_bandwidth": "400 GB/s", "nics_per_node": 8}, (8, 50e9, 1.2e-6)),
        ({**H100, "network_bandwidth": "400 GB/s", "nics_per_node": 8, "fabric": "ethernet-25g"}, (8, 50e9, 1.2e-6)),
    ],
)
def test_nics_are_those_that_are_written_or_of_the_profile_no_faster_than_a_named_port(
    hardware: dict[str, Any], expected: tuple[int, float, float]
) -> None:
    assert nic_links(built(hardware)) == {expected}


def test_one_nic_is_shared_by_all_gpus() -> None:
    links = [link for link in built({**H100, "nic": {"count": 1}}).topology.links if link.kind == "nic"]
    assert {link.bytes_per_s for link in links} == {48e9}
    assert sum(link.latency_s == 1.2e-6 for link in links) == 2 * 2  # one card in each node, both ways


def test_a_fabric_beside_a_node_profile_changes_how_long_a_step_takes() -> None:
    """With `fabric` alone; it used to change the latency and nothing else."""
    times = {}
    for fabric in ("ethernet-25g", "infiniband-edr", "infiniband-ndr"):
        run = config({**H100, "fabric": fabric}, model={"name": "Llama3-8B"}, parallelism={"strategy": "FSDP"})
        times[fabric] = DistributedAISimulator(run).run().metrics["communication_s"]
    assert times["ethernet-25g"] > 2 * times["infiniband-edr"] > 3 * times["infiniband-ndr"]


def test_the_bandwidth_of_a_card_is_not_that_of_a_node() -> None:
    def seconds(**nic: Any) -> float:
        run = config({**H100, "nic": nic}, model={"name": "Llama3-8B"}, parallelism={"strategy": "FSDP"})
        return float(DistributedAISimulator(run).run().metrics["mean_iteration_s"])

    assert seconds(bandwidth="400 Gb/s", count=8) < 0.9 * seconds(bandwidth="400 Gb/s", count=1)


def test_nodes_of_one_gpu_have_links_as_fast_as_their_cards_together() -> None:
    for nic, bytes_per_s in (({"bandwidth": "25 GB/s"}, 25e9), ({"bandwidth": "25 GB/s", "count": 2}, 50e9)):
        assert {link.bytes_per_s for link in built({**LONE, "nic": nic}).topology.links} == {bytes_per_s}


def test_all_kinds_of_nodes_have_the_nics_that_are_written() -> None:
    nodes = [{"profile": "dgx-h100"}, {"profile": "dgx-a100"}]
    assert nic_links(built({"nodes": nodes, "nic": {"bandwidth": "10 GB/s"}})) == {(8, 10e9, 1.2e-6)}
    assert nic_links(built({"nodes": nodes, "fabric": "infiniband-edr"})) == {(8, 12.5e9, 1.2e-6)}


def test_more_cards_than_gpus_are_counted_although_they_are_joined() -> None:
    assert built({**H100, "nic": {"count": 16}}).num_nics == 2 * 16
    limited = limited_nics(Nics(6, 10e9, 1e-6), 8e9)
    assert limited == Nics(6, 8e9, 1e-6)
    assert simulated_nics(limited, 4) == Nics(4, 12e9, 1e-6)
    assert simulated_nics(limited, 6) == limited
    assert limited_nics(limited, None) == limited_nics(limited, 9e9) == limited


@pytest.mark.parametrize(("gpus", "gb_per_s"), [(8, 384), (4, 192), (1, 48)])
def test_each_gpu_keeps_the_share_of_the_cards_that_the_profile_gives_it(gpus: int, gb_per_s: float) -> None:
    nics = described_nics(HardwareConfig(profile="p5.48xlarge"), load_node("p5.48xlarge"), load_fabric("efa-v2"), gpus)
    assert nics.count * nics.bytes_per_s == gb_per_s * 1e9


def test_a_described_nic_keeps_its_own_rate_beside_a_slower_fabric() -> None:
    hardware = HardwareConfig(**H100, fabric="infiniband-edr")
    assert described_nics(hardware, load_node("dgx-h100"), load_fabric("infiniband-edr"), 8).bytes_per_s == 48e9


# --- refused ---


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ({**H100, "nic": {}}, "give bandwidth, count or latency"),
        ({**H100, "nic": {"count": 8}, "network_bandwidth": "1 GB/s"}, "network_bandwidth\n.*leave network_bandwidth"),
        ({**H100, "nic": {"count": 8}, "network_bandwidth_gbps": 1}, "leave network_bandwidth out"),
        ({**H100, "nic": {"count": 8}, "nics_per_node": 8}, "nics_per_node\n.*leave nics_per_node out"),
        ({**H100, "nics_per_node": 4}, r"write nic: \{count: 4\}"),
        ({**H100, "nic": {"bandwidth": 400}}, "has no unit"),
        ({**H100, "nic": {"count": 0}}, "greater than or equal to 1"),
        ({**H100, "nic": {"speed": "1 GB/s"}}, "Extra inputs"),
    ],
)
def test_descriptions_that_contradict_each_other_or_say_nothing_are_refused(
    hardware: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        HardwareConfig(**hardware)


EDGES = [{"from": "gpu0", "to": "gpu1"}, {"from": "gpu1", "to": "gpu2"}, {"from": "gpu2", "to": "gpu3"}]


@pytest.mark.parametrize(
    ("nic", "network", "path", "message"),
    [
        ({"latency": "1 us"}, {}, "hardware.nic.latency", "write network.base_latency"),
        ({"count": 1}, {"link_bandwidth": "1 GB/s"}, "hardware.nic", "leave out nic or link_bandwidth"),
        ({"count": 1}, {"topology_type": "custom", "edges": EDGES}, "hardware.nic", "join GPUs without network cards"),
    ],
)
def test_nics_that_could_not_count_are_refused(
    nic: dict[str, Any], network: dict[str, Any], path: str, message: str
) -> None:
    (problem,) = check_config(config({**LONE, "nic": nic}, network=network))
    assert problem.path == path
    assert message in problem.message
    with pytest.raises(ConfigError, match=message):
        built({**LONE, "nic": nic}, network)


# --- warnings ---


def warnings(hardware: dict[str, Any], **network: Any) -> list[str]:
    return [str(problem) for problem in built(hardware, network).warnings]


def test_a_nic_faster_than_the_port_that_is_named_is_a_warning_and_the_reverse_is_none() -> None:
    (text,) = warnings({**H100, "fabric": "infiniband-edr"})
    assert text.startswith("hardware.fabric: a NIC of 48 GB/s is faster than a port of infiniband-edr (12.5 GB/s)")
    (text,) = warnings({**H100, "fabric": "infiniband-edr", "nic": {"bandwidth": "400 Gb/s"}})
    assert text.startswith("hardware.nic.bandwidth: a NIC of 50 GB/s")
    assert warnings({**H100, "fabric": "infiniband-ndr"}) == warnings({**H100, "nic": {"bandwidth": "1 TB/s"}}) == []
    assert warnings({"profile": "dgx-h100", "fabric": "infiniband-edr"}) == []  # one node


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (
            {**H100, "network_bandwidth": "400 Gb/s"},
            "50 GB/s (400 Gb/s) for the whole node over 1 NIC, shared by 8 GPUs; write nic: {bandwidth: 50 GB/s, "
            "count: 1}, or nic: {bandwidth: 50 GB/s, count: 8} if each GPU has a NIC of that speed",
        ),
        ({**H100, "network_bandwidth_gbps": 400}, "400 GB/s (3,200 Gb/s) for the whole node over 1 NIC"),
        (
            {**H100, "network_bandwidth": "400 GB/s", "nics_per_node": 8},
            "over 8 NICs; write nic: {bandwidth: 50 GB/s, count: 8}",
        ),
        (
            {**H100, "network_bandwidth": "50 GB/s", "fabric": "ethernet-25g"},
            "ports of ethernet-25g (3.12 GB/s) do not limit it",
        ),
        ({**LONE, "network_bandwidth": "50 GB/s"}, "over 1 NIC; write nic: {bandwidth: 50 GB/s, count: 1}"),
        ({"profile": "dgx-h100", "network_bandwidth": "50 GB/s"}, "a single node does not use it"),
    ],
)
def test_the_older_keys_say_how_they_are_understood(hardware: dict[str, Any], said: str) -> None:
    (text,) = warnings(hardware)
    assert text.startswith("hardware.network_bandwidth: ")
    assert said in text


def test_an_older_key_that_a_bandwidth_of_links_replaces_says_so() -> None:
    (text,) = warnings({**LONE, "network_bandwidth": "50 GB/s"}, link_bandwidth="1 GB/s")
    assert text.endswith("network.link_bandwidth replaces it")


def test_a_check_warns_at_the_line_of_the_alias_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(
        "hardware:\n  profile: dgx-h100\n  num_nodes: 2\n  network_bandwidth_gbps: 50\n"
        "model: {name: GPT2-Small}\ntraining: {batch_size_per_gpu: 1}\n",
        encoding="utf-8",
    )
    found: list[Any] = []
    check_file(path, warn=found.append)
    assert [(problem.line, problem.path) for problem in found] == [(4, "hardware.network_bandwidth_gbps")]


@pytest.mark.parametrize("name", ["experiment_config", "training", "serving", "shared_cluster", "level_of_detail"])
def test_shipped_experiments_do_not_warn(name: str) -> None:
    found: list[Any] = []
    check_file(ROOT / "experiments" / f"{name}.yaml", warn=found.append)
    assert found == []


def test_runs_of_several_jobs_warn_of_the_cluster_once_and_without_names() -> None:
    jobs = [{"name": "a", "gpus": 8}, {"name": "b", "gpus": 8}]
    result = DistributedAISimulator(config({**H100, "network_bandwidth": "50 GB/s"}, jobs=jobs)).run()
    (text,) = result.warnings
    assert text.startswith("hardware.network_bandwidth: 50 GB/s")
    assert sum(line.startswith("network: 1 x 50 GB/s NIC per node") for line in result.assumptions) == 1


@pytest.mark.parametrize(("gpus", "gb_per_s"), [(1, 3.0), (2, 6.0), (8, 12.0)])
def test_gpus_that_send_through_the_host_limit_their_card(gpus: int, gb_per_s: float) -> None:
    hardware = HardwareConfig(profile="g4dn.metal", num_nodes=2, gpus_per_node=gpus)
    cards = described_nics(hardware, load_node("g4dn.metal"), load_fabric("efa-host"), gpus)
    assert (cards.count, cards.bytes_per_s) == (1, gb_per_s * 1e9)


@pytest.mark.parametrize("bandwidth", ["2 GB/s", "10 GB/s"])
def test_a_written_rate_of_the_card_counts(bandwidth: str) -> None:
    hardware = HardwareConfig(profile="g4dn.metal", num_nodes=2, gpus_per_node=1, nic={"bandwidth": bandwidth})
    cards = described_nics(hardware, load_node("g4dn.metal"), load_fabric("efa-host"), 1)
    assert f"{cards.bytes_per_s / 1e9:g} GB/s" == bandwidth
