"""The line that says what network an answer rests on."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.cluster import build_cluster
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig

H100: dict[str, Any] = {"profile": "dgx-h100", "num_nodes": 2}
LONE = {"gpu": "H100-SXM", "num_nodes": 2, "gpus_per_node": 1}
GPU_EDGE = [{"from": "gpu0", "to": "gpu1"}]
NODE_EDGE = [{"from": "node0", "to": "node1", "latency": "1 us"}]


@pytest.mark.parametrize(
    ("hardware", "network", "text"),
    [
        (
            {**H100, "nic": {"bandwidth": "50 GB/s"}, "fabric": "infiniband-ndr"},
            {"topology_type": "rail_optimized", "base_latency": "5 us"},
            "8 x 50 GB/s NICs per node (1.2 us each), rail_optimized (fabric infiniband-ndr, 64 ports per switch), "
            "5 us per link",
        ),
        (
            H100,
            {},
            "8 x 48 GB/s NICs per node (1.2 us each), switch (no fabric named, latency of infiniband-hdr), "
            "130 ns per link",
        ),
        (
            {**H100, "nic": {"count": 1}},
            {"topology_type": "fat_tree", "radix": 8, "base_latency": "1 us"},
            "1 x 48 GB/s NIC per node (1.2 us each), fat_tree (8 ports per switch), 1 us per link",
        ),
        (
            {**H100, "fabric": "infiniband-edr"},
            {"link_bandwidth": "20 GB/s"},
            "8 x 12.5 GB/s NICs per node (1.2 us each), switch (fabric infiniband-edr), 20 GB/s all ports of a node "
            "together, 90 ns per link",
        ),
        (
            {**H100, "nic": {"count": 16, "bandwidth": "200 Gb/s"}},
            {"base_latency": "1 us"},
            "16 x 25 GB/s NICs per node (1.2 us each, joined to one per GPU), switch, 1 us per link",
        ),
        (
            {**LONE, "nic": {"bandwidth": "25 GB/s"}},
            {"topology_type": "ring", "base_latency": "2 us"},
            "25 GB/s per node of one GPU, ring, 2 us per link",
        ),
        (
            {"nodes": [{"profile": "dgx-h100"}, {"profile": "dgx-v100"}]},
            {"base_latency": "1 us"},
            "8 x 48 GB/s or 4 x 12 GB/s NICs per node (1.2 us each), switch, 1 us per link",
        ),
        (
            LONE,
            {"topology_type": "custom", "edges": GPU_EDGE, "link_bandwidth": "7 GB/s"},
            "custom edges between GPUs (7 GB/s and 130 ns where an edge gives none)",
        ),
        (
            H100,
            {"topology_type": "custom", "edges": NODE_EDGE},
            "8 x 48 GB/s NICs per node (1.2 us each), custom edges between nodes (384 GB/s and 130 ns where an edge "
            "gives none)",
        ),
        ({"profile": "dgx-h100"}, {}, ""),
    ],
)
def test_the_line_says_what_is_simulated(hardware: dict[str, Any], network: dict[str, Any], text: str) -> None:
    cluster = build_cluster(HardwareConfig(**hardware), NetworkConfig.model_validate(network))
    assert cluster.network_text == (f"network: {text}" if text else "")


SERVING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "TP", "tp_degree": 4},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 4, "output_tokens": 2, "num_requests": 1},
}
TRAINING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}


@pytest.mark.parametrize("work", [SERVING, TRAINING], ids=["serving", "training"])
def test_an_answer_on_several_nodes_states_its_network_and_one_on_a_single_node_none(work: dict[str, Any]) -> None:
    for num_nodes, lines in ((2, 1), (1, 0)):
        config = SimulationConfig(hardware={**H100, "num_nodes": num_nodes}, **work)
        result = DistributedAISimulator(config).run()
        assert sum(line.startswith("network: 8 x 48 GB/s NICs") for line in result.assumptions) == lines
