"""Topologies of NCCL: what is read, and what is refused."""

from __future__ import annotations

import pytest

from simsys.errors import ConfigError
from simsys.machines.machine import Machine
from simsys.machines.nccl_xml import read_xml
from tests.helpers.machine_files import h100_xml, l40s_xml


def read(text: str) -> Machine:
    return read_xml(text, "topo.xml")


def test_nvlinks_to_switches_and_cards_with_rates() -> None:
    found = read(h100_xml())
    assert found.switched == [18] * 8
    assert not found.nvlinks
    assert [(nic.name, nic.bits_per_s) for nic in found.nics] == [(f"mlx5_{nic}", 400e9) for nic in range(8)]
    assert found.nearest_nics() == [("PIX", [gpu]) for gpu in range(8)]
    gpu = found.gpus[5]
    assert (gpu.model, gpu.numa, gpu.capability, gpu.pcie_gt_per_s, gpu.pcie_lanes) == ("0x2330", 1, 90, 32.0, 16)


def test_distances_follow_the_tree() -> None:
    found = read(l40s_xml())
    assert [found.gpu_distance[0, other] for other in (1, 2, 4)] == ["PIX", "PHB", "SYS"]
    assert found.cpu == ("AuthenticAMD", 175, 1)


def test_devices_below_bridges_of_different_depth_are_pxb() -> None:
    gpu = '<pci busid="{0}" class="0x030200"><gpu dev="{0}"/></pci>'
    tree = f'<pci busid="a"><pci busid="b">{gpu.format(0)}</pci>{gpu.format(1)}</pci>'
    assert read(f"<system><cpu>{tree}</cpu></system>").gpu_distance == {(0, 1): "PXB"}


def test_nvlinks_between_gpus_are_counted_by_pair() -> None:
    gpu = '<pci busid="{0}"><gpu dev="{0}"><nvlink target="{1}" count="4" tclass="0x030200"/></gpu></pci>'
    found = read(f"<system><cpu>{gpu.format(0, 1)}{gpu.format(1, 0)}</cpu></system>")
    assert (found.nvlinks, found.switched) == ({(0, 1): 4}, [0, 0])


def test_devices_that_are_listed_by_their_class_alone_are_read() -> None:
    devices = '<pci busid="1" class="0x030200"/><pci busid="2" class="0x020700"/><pci busid="3" class="0x010802"/>'
    found = read(f"<system><cpu>{devices}</cpu></system>")
    assert (len(found.gpus), len(found.nics)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<graphs/>", r"the root element is <graphs> \(that of NCCL_GRAPH_DUMP_FILE\), not <system>"),
        ("<nvidia_smi_log/>", "the root element is <nvidia_smi_log>, not <system>"),
        ("<system>", r"topo.xml:1:9: not well-formed XML: no element found"),
        ("<system/>", "there is no GPU"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><system/>', "no document type"),
        ('<system><cpu><pci busid="1"><gpu dev="many"/></pci></cpu></system>', "gpu: dev is 'many', not an integer"),
        ('<system><cpu><pci busid="1"><gpu dev="0"><xgmi/></gpu></pci></cpu></system>', "xgmi links"),
        (
            '<system><cpu><pci busid="0"><gpu dev="0"><nvlink target="1" count="2"/></gpu></pci><pci busid="1">'
            '<gpu dev="1"><nvlink target="0" count="4"/></gpu></pci></cpu></system>',
            "GPU0 and GPU1 have different numbers of NVLinks",
        ),
    ],
)
def test_other_xml_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(text)
