"""Machines of clouds: they are found by the names of instance types, and bring their networks."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.cluster import Cluster, build_cluster
from simsys.collectives.nccl import PROTOCOLS, NcclTuning
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import load_fabric, load_gpu, load_node, profile_names
from simsys.config.network import NetworkConfig
from simsys.simulation import simulate

TRAINING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}
SERVING: dict[str, Any] = {
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 32, "output_tokens": 2, "num_requests": 2},
}


def built(profile: str, **hardware: Any) -> Cluster:
    return build_cluster(HardwareConfig(profile=profile, num_nodes=2, **hardware), NetworkConfig())


@pytest.mark.parametrize(
    ("name", "gpu", "fabric", "gb_per_s"),
    [
        ("p4d.24xlarge", "A100-SXM-40GB", "efa-v1", 48),
        ("p5.48xlarge", "H100-SXM", "efa-v2", 384),
        ("p5en.48xlarge", "H200-SXM", "efa-v3", 384),
        ("p6-b200.48xlarge", "B200-SXM", "efa-v4", 384),
        ("a3-highgpu-8g", "H100-SXM", "gpudirect-tcpx", 75),
        ("a3-megagpu-8g", "H100-SXM", "gpudirect-tcpxo", 192),
        ("a4x-highgpu-4g", "GB200", "roce-400g", 3456),
        ("Standard_ND96isr_H100_v5", "H100-SXM", "infiniband-ndr", 384),
        ("BM.GPU4.8", "A100-SXM-40GB", "roce-100g", 192),
        ("BM.GPU.MI300X.8", "MI300X", "roce-400g", 384),
    ],
)
def test_an_instance_type_brings_its_gpus_cards_and_fabric(name: str, gpu: str, fabric: str, gb_per_s: float) -> None:
    node = load_node(name)
    assert (node.gpu, node.fabric) == (gpu, fabric)
    assert node.nics is not None
    assert node.nics.count * node.nics.bandwidth == pytest.approx(gb_per_s * 1e9)
    assert node.nics.bandwidth <= load_fabric(fabric).bandwidth
    assert f"fabric {fabric}" in built(name).network_text


def test_a_fabric_that_is_named_replaces_the_usual_one() -> None:
    assert "fabric infiniband-ndr" in built("p5.48xlarge", fabric="infiniband-ndr").network_text
    assert "no fabric named" in built("dgx-h100").network_text


def test_a_transport_limits_protocols_between_nodes_only() -> None:
    tuning = built("p4d.24xlarge").tuning
    assert isinstance(tuning, NcclTuning)
    assert [tuning.offers("ring", each, 2) for each in PROTOCOLS] == [False, False, True]
    assert all(tuning.offers("ring", each) for each in PROTOCOLS)


@pytest.mark.parametrize("name", profile_names("node"))
def test_every_shipped_node_trains_and_serves(name: str) -> None:
    precision = next(each for each in ("bf16", "fp16") if each in load_gpu(load_node(name).gpu).peak)
    hardware = {"profile": name, "num_nodes": 2, "gpus_per_node": 2}
    training = {**TRAINING["training"], "precision": precision}
    trained = simulate(SimulationConfig.model_validate({**TRAINING, "hardware": hardware, "training": training}))
    assert 1e-3 < trained.metrics["mean_iteration_s"] < 10.0
    settings = {**SERVING, "model": TRAINING["model"], "serving": {"precision": precision}}
    alone = {"profile": name, "gpus_per_node": 1}
    served = simulate(SimulationConfig.model_validate({**settings, "hardware": alone}))
    assert served.metrics["completed"] == 2


@pytest.mark.parametrize(
    ("chip", "topology", "dims"),
    [("TPU-v5p", "torus_3d", [2, 2, 2]), ("Trillium", "torus_2d", [4, 2]), ("Ironwood", "torus_3d", [2, 2, 2])],
)
def test_chips_train_on_a_torus_of_nodes_of_one_chip_and_serve(chip: str, topology: str, dims: list[int]) -> None:
    network = {"topology_type": topology, "dims": dims, "link_bandwidth": "100 GB/s", "base_latency": "1 us"}
    settings = {**TRAINING, "hardware": {"gpu": chip, "num_nodes": 8}, "network": network}
    trained = DistributedAISimulator(SimulationConfig.model_validate(settings)).run()
    assert trained.metrics["communication_s"] > 0.0
    served = DistributedAISimulator(SimulationConfig.model_validate({**SERVING, "hardware": {"gpu": chip}})).run()
    assert served.metrics["duration"] > 0.0
