"""Names of GPUs, instance types and networks in tables."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import UnknownNameError
from simsys.fidelity.tables.hardware_names import hardware_of, hardware_of_instance, instance_in


def two_nodes(interconnect: str) -> dict[str, Any]:
    return hardware_of("A100-SXM-80GB", 16, 2, interconnect)


@pytest.mark.parametrize(
    ("interconnect", "gb_per_s"),
    [
        ("4x100G", 48),
        ("4x200Gb IB", 96),
        ("8x50GB/s", 384),
        ("8x50 GB/s", 384),
        ("8x2x50G", 96),
        ("4x200Gbps RDMA", 96),
        ("8x HDR100G", 96),
        ("800Gbps/node", 96),
        ("RoCE 0.8 Tb/s per node", 96),
        ("100 GB/s per node", 96),
    ],
)
def test_the_rate_of_the_cards_is_read_in_bits_or_bytes(interconnect: str, gb_per_s: float) -> None:
    assert two_nodes(interconnect)["network_bandwidth"] == f"{gb_per_s:g} GB/s"


@pytest.mark.parametrize("interconnect", ["8x200G IB/node", "8x25GB/s", "IB", ""])
def test_the_usual_cards_are_those_of_the_node_profile(interconnect: str) -> None:
    assert "network_bandwidth" not in two_nodes(interconnect)


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("AWS p4de.24xlarge A100-80GB EFA 400G (2 nodes)", "p4de.24xlarge"),
        ("AWS p5en H200 (4 nodes; default Ring)", "p5en"),
        ("GKE a3-megagpu-8g H100 GPUDirect-TCPXO", "a3-megagpu-8g"),
        ("Azure ND A100 v4 A100-40GB 200G IB per GPU (2 node(s))", "ND A100 v4"),
        ("AMD MI300X (2 nodes; rccl-tests)", ""),
        ("node of type xp4de.24xlarge", ""),
    ],
)
def test_an_instance_type_is_found_in_a_description_as_a_whole_word(description: str, name: str) -> None:
    assert instance_in(description) == name


def test_an_instance_type_is_a_node_profile() -> None:
    assert hardware_of_instance("P5.48xlarge", 16, 2) == {
        "profile": "p5.48xlarge",
        "num_nodes": 2,
        "gpus_per_node": 8,
    }


def test_nodes_that_nvlink_joins_are_one() -> None:
    found = hardware_of_instance("BM.GPU.GB200.4", 16, 4)
    assert (found["num_nodes"], found["gpus_per_node"]) == (1, 16)


def test_a_stated_rate_replaces_that_of_the_instance() -> None:
    assert "network_bandwidth" not in hardware_of_instance("p5.48xlarge", 16, 2, "EFAv2 32x100G")
    halved = hardware_of_instance("p5.48xlarge", 16, 2, "EFAv2 16x100G")
    assert (halved["network_bandwidth"], halved["nics_per_node"]) == ("192 GB/s", 8)


def test_an_unknown_instance_type_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown instance type 'p5\.48xlrge', did you mean 'p5\.48xlarge'"):
        hardware_of_instance("p5.48xlrge", 16, 2)
