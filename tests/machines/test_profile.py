"""Node profiles of machines: equal to the shipped ones, and with notes on what is assumed."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.hardware import load_node
from simsys.errors import ConfigError, UnknownNameError
from simsys.machines.nccl_xml import read_xml
from simsys.machines.profile import ImportedProfile, node_profile
from simsys.machines.smi_matrix import read_matrix
from simsys.platform.node_topologies import DGX1_NVLINKS
from tests.helpers.machine_files import dgx_h100, h100_xml, l40s_xml, matrix


def imported(text: str, gpu: str | None = None, nic: float | None = None) -> ImportedProfile:
    read = read_xml if text.startswith("<") else read_matrix
    return node_profile(read(text, "m.txt"), "m", gpu, nic)


def joined(text: str, gpu: str | None = None) -> dict[str, Any]:
    return dict(imported(text, gpu).data["interconnect"])


@pytest.mark.parametrize(
    ("text", "name"), [(dgx_h100(), "dgx-h100"), (h100_xml(), "dgx-h100"), (l40s_xml(), "pcie-tree-l40s-8")]
)
def test_an_imported_machine_equals_the_shipped_profile(text: str, name: str) -> None:
    found, shipped = load_node(imported(text).data), load_node(name)
    assert (found.gpu, found.gpus_per_node) == (shipped.gpu, shipped.gpus_per_node)
    assert found.interconnect == shipped.interconnect
    assert found.nics == shipped.nics


@pytest.mark.parametrize(
    ("gpu", "links", "gpus", "kind", "bandwidth"),
    [
        ("A100-SXM-80GB", "NV12", 8, "nvswitch", "240 GB/s"),
        ("B200-SXM", "NV18", 8, "nvswitch", "721.8 GB/s"),
        ("H100-SXM", "NV8", 8, "nvswitch", "164.8 GB/s"),
        ("A100-SXM-80GB", "NV4", 4, "nvlink_mesh", "240 GB/s"),
        ("H100-SXM", "NV6", 4, "nvlink_mesh", "370.8 GB/s"),
        ("A100-SXM-80GB", "NV12", 2, "nvlink_mesh", "240 GB/s"),
        ("RTX-A6000", "NV4", 2, "nvlink_mesh", "48 GB/s"),
    ],
)
def test_nvlinks_have_the_rate_of_their_generation(gpu: str, links: str, gpus: int, kind: str, bandwidth: str) -> None:
    found = joined(matrix(gpus, 0, links, {}, [0] * gpus), gpu)
    assert (found["kind"], found["bandwidth"]) == (kind, bandwidth)


def test_the_links_of_a_dgx_1_are_its_cube_mesh() -> None:
    links = {pair: f"NV{count}" for pair, count in DGX1_NVLINKS.items()}
    found = imported(matrix(8, 4, links, {}, [0] * 4 + [1] * 4), "V100-SXM-32GB")
    assert (found.data["interconnect"]["kind"], found.data["interconnect"]["bandwidth"]) == (
        "hybrid_cube_mesh",
        "20 GB/s",
    )


def test_bridges_of_pairs_are_left_out_with_a_note() -> None:
    links = {(0, 1): "NV4", (2, 3): "NV4", (0, 2): "NODE", (0, 3): "NODE", (1, 2): "NODE", (1, 3): "NODE"}
    found = imported(matrix(4, 1, links, {}, [0] * 4), "RTX-A6000")
    assert found.data["interconnect"]["kind"] == "pcie_tree"
    assert any("NVLinks that do not join all GPUs alike (GPU0-GPU1 NV4" in note for note in found.notes)


def test_pcie_without_switches_has_a_branch_for_each_gpu() -> None:
    found = joined(matrix(4, 0, {(0, 1): "NODE", (2, 3): "PHB"}, {}, [0, 0, 1, 1]), "L4")
    assert (found["kind"], found["gpus_per_switch"], found["sockets"]) == ("pcie_tree", 1, 2)
    assert found["bandwidth"] == "24 GB/s"  # PCIe 4.0 x16 as NCCL counts it


def test_unequal_switches_become_one_with_a_note() -> None:
    links = {(0, 1): "PIX", (0, 2): "NODE", (1, 2): "NODE"}
    found = imported(matrix(3, 0, links, {}, [0] * 3), "L40S")
    assert found.data["interconnect"]["kind"] == "pcie_switch"
    assert any("of unequal size (GPU0 GPU1; GPU2)" in note for note in found.notes)


def test_the_rate_between_sockets_is_that_of_the_processor() -> None:
    sapphire = (
        l40s_xml()
        .replace("AuthenticAMD", "GenuineIntel")
        .replace('familyid="175" modelid="1"', 'familyid="6" modelid="143"')
    )
    assert joined(sapphire)["socket_link"]["bandwidth"] == "22 GB/s"
    assert joined(l40s_xml())["socket_link"]["bandwidth"] == "16 GB/s"


def test_cards_far_from_gpus_are_counted_only_if_none_is_near() -> None:
    near = {(gpu, gpu // 2): "PIX" for gpu in range(4)} | {(gpu, 2): "NODE" for gpu in range(4)}
    found = imported(matrix(4, 3, "NV4", near, [0] * 4), "A100-SXM-80GB", 25e9)
    assert found.data["nics"] == {"count": 2, "bandwidth": "25 GB/s", "latency": "1.2 us"}
    assert any("left out: mlx5_2" in note for note in found.notes)
    far = imported(matrix(4, 3, "NV4", {}, [0] * 4), "A100-SXM-80GB")
    assert far.data["nics"]["count"] == 3
    assert any("traffic of GPU0 SYS, GPU1 SYS" in note for note in far.notes)


def test_more_cards_than_gpus_are_noted() -> None:
    near = {(gpu, nic): "PIX" for gpu in range(2) for nic in range(4)}
    found = imported(matrix(2, 4, "NV12", near, [0, 0]), "A100-SXM-80GB", 12e9)
    assert found.data["nics"]["count"] == 4
    assert any("4 network cards for 2 GPUs" in note for note in found.notes)


def test_cards_in_another_order_than_gpus_are_noted() -> None:
    near = {(0, 1): "PIX", (1, 0): "PIX"}
    notes = imported(matrix(2, 2, "NV12", near, [0, 0]), "A100-SXM-80GB").notes
    assert any("another than the nearest: GPU0 mlx5_0, GPU1 mlx5_1" in note for note in notes)


def test_every_number_has_a_source_and_assumptions_stand_in_the_file() -> None:
    text = imported(matrix(2, 0, "NV4", {}, [0, 0]), "RTX-A6000").text()
    assert "# no network card is listed; one is assumed" in text
    assert "assumed, as of pcie-a6000-4" in text


@pytest.mark.parametrize(
    ("text", "gpu", "error", "reason"),
    [
        (matrix(2, 0, "NV4", {}, [0, 0]), None, ConfigError, "the file does not name the GPU; give --gpu"),
        (matrix(2, 0, "NV4", {}, [0, 0]), "H10", UnknownNameError, "unknown gpu profile 'H10'"),
        (
            dgx_h100().replace("H100 80GB HBM3", "T1000"),
            None,
            ConfigError,
            "no GPU profile is known for 'NVIDIA T1000'",
        ),
        (dgx_h100().replace("H100 80GB HBM3", "H200", 1), None, ConfigError, "the GPUs differ"),
    ],
)
def test_an_unknown_gpu_is_refused(text: str, gpu: str | None, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        imported(text, gpu)
