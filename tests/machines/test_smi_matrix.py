"""Matrices of nvidia-smi topo -m: what is read, and what is refused with line, row and column."""

from __future__ import annotations

import pytest

from simsys.errors import ConfigError
from simsys.machines.machine import Machine
from simsys.machines.smi_matrix import read_matrix
from tests.helpers.machine_files import DGX_H100_MODELS, dgx_h100, matrix


def read(text: str) -> Machine:
    return read_matrix(text, "topo.txt")


def test_a_dgx_has_its_gpus_links_and_cards() -> None:
    found = read(dgx_h100())
    assert [(gpu.model, gpu.numa) for gpu in found.gpus] == [("NVIDIA H100 80GB HBM3", gpu // 4) for gpu in range(8)]
    assert set(found.nvlinks.values()) == {18}
    assert len(found.nvlinks) == 28
    assert [nic.name for nic in found.nics] == [f"mlx5_{nic}" for nic in range(10)]  # of the legend
    assert found.nearest_nics()[3] == ("PXB", [3])


def test_distances_over_pcie_give_switches_and_sockets() -> None:
    links = {(0, 1): "PIX", (2, 3): "PXB", (0, 2): "NODE", (0, 3): "NODE", (1, 2): "NODE", (1, 3): "PHB"}
    found = read(matrix(6, 0, {**links, (4, 5): "PIX"}, {}, [0, 0, 0, 0, 1, 1]))
    assert found.clusters("PXB") == [[0, 1], [2, 3], [4, 5]]
    assert found.clusters("PIX") == [[0, 1], [2], [3], [4, 5]]
    assert found.clusters("NODE") == [[0, 1, 2, 3], [4, 5]]


def test_underlined_headers_older_names_and_text_around_are_read() -> None:
    text = (
        matrix(2, 1, "SYS", {}, [0, 1]).replace("SYS", "SOC").replace("GPU0\tGPU1\t", "\x1b[4mGPU0\tGPU1\t\x1b[0m", 1)
    )
    found = read(f"$ nvidia-smi topo -m\n{text}$ exit\n")
    assert found.gpu_distance == {(0, 1): "SYS"}
    assert found.nic_distance == {(0, 0): "SYS", (1, 0): "SYS"}


def test_names_of_cards_can_be_columns() -> None:
    assert [nic.name for nic in read(matrix(2, 2, "NV4", {}, [0, 0]).replace("NIC", "mlx5_")).nics] == [
        "mlx5_0",
        "mlx5_1",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("NV18", "FOO"), r"topo.txt:10: row GPU0, column GPU1: 'FOO' is not one of PIX, PXB, PHB, NODE, SYS, NV1"),
        (("NV18", "NV0"), "'NV0' is not one of"),
        (("NV18", "X"), "row GPU0, column GPU1: 'X' is not one of"),
        ((" X ", "NV18"), "row GPU0, column GPU0: 'NV18' is not X"),
        (("PXB", "NV2"), "row GPU0, column NIC0: 'NV2' is not one of PIX, PXB, PHB, NODE, SYS$"),
        (("NV18", "NV12"), "row GPU0, column GPU1 is NV12, but row GPU1, column GPU0 is NV18"),
        (("NV18\tNV18\t", "NV18\t"), "row GPU0, column NIC9: '0-51,104-155' is not one of"),
        (("GPU1\t", "GPU9\t"), "the row of GPU1 has no column"),
        (("\nGPU7", "\nGPUX"), "the row of GPU7 is missing"),
        (("\nGPU7", "\nGPU6"), "a second row of GPU6"),
        (("\tGPU1\t", "\tGPU2\t"), "two columns are called GPU2"),
    ],
)
def test_a_matrix_that_makes_no_sense_is_refused(change: tuple[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(dgx_h100().replace(*change, 1))


def test_a_truncated_matrix_is_refused() -> None:
    text = dgx_h100()
    with pytest.raises(ConfigError, match=r"topo.txt:17: the row of GPU7 has 5 of 18 columns"):
        read(text[: text.index("\nGPU7\t") + len("\nGPU7\t" + 4 * "NV18\t" + "NV")] + "18")


def test_text_without_a_matrix_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topo\.txt: there is no matrix"):
        read(DGX_H100_MODELS)
