"""What tables of measurements call GPUs and networks, as hardware of an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from simsys.config.hardware import load_gpu
from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported


@dataclass(frozen=True)
class Machine:
    """The nodes that a GPU usually stands in.

    Args:
        gpu: Its profile.
        node: A profile of such nodes, if there is one.
        domain: Most GPUs of a node; where NVLink goes beyond a node, those that it joins.
        fabric: Between the nodes.
        nics_gb_per_s: What the profile's network cards carry together.
    """

    gpu: str
    node: str
    domain: int = 8
    fabric: str = "infiniband-hdr"
    nics_gb_per_s: float = 192.0


_MACHINES: tuple[tuple[str, Machine], ...] = (
    (r"gb300", Machine("GB300", "gb300-nvl72", 72, "infiniband-xdr", 6912.0)),
    (r"gb200", Machine("GB200", "gb200-nvl72", 72, "infiniband-ndr", 3456.0)),
    (r"gh200", Machine("GH200-96GB", "", 1)),
    (r"b300", Machine("B300", "dgx-b300", 8, "infiniband-xdr", 768.0)),
    (r"b200", Machine("B200-SXM", "dgx-b200", 8, "infiniband-ndr", 384.0)),
    (r"h200(?!.?nvl)", Machine("H200-SXM", "dgx-h200", 8, "infiniband-ndr", 384.0)),
    (r"h100.*power", Machine("H100-SXM-350W", "dgx-h100", 8, "infiniband-ndr", 384.0)),
    (r"h100.*96", Machine("H100-SXM-96GB", "dgx-h100", 8, "infiniband-ndr", 384.0)),
    (r"h100(?!.?(pci|nvl))", Machine("H100-SXM", "dgx-h100", 8, "infiniband-ndr", 384.0)),
    (r"a100.?pcie(?!.?40)", Machine("A100-PCIE", "pcie-a100-8", 8, "infiniband-hdr", 0.0)),
    (r"a100(?!.?pci).*40", Machine("A100-SXM-40GB", "dgx-a100-40gb")),
    (r"a100(?!.?pci)", Machine("A100-SXM-80GB", "dgx-a100")),
    (r"v100.*16", Machine("V100-SXM-16GB", "dgx-v100", 8, "infiniband-edr", 48.0)),
    (r"v100", Machine("V100-SXM-32GB", "dgx-v100", 8, "infiniband-edr", 48.0)),
    (r"mi300x", Machine("MI300X", "mi300x-platform", 8, "roce-400g", 384.0)),
    (r"mi250", Machine("MI250", "mi250-8", 8, "infiniband-hdr", 0.0)),
    (r"gaudi.?2", Machine("Gaudi2", "gaudi2-8", 8, "infiniband-hdr", 0.0)),
    (r"rtx.?(6000.?pro|pro.?6000)", Machine("RTX-PRO-6000", "pcie-rtx-pro-8", 8, "infiniband-hdr", 0.0)),
    (r"a6000", Machine("RTX-A6000", "pcie-a6000-4", 4, "infiniband-hdr", 0.0)),
    (r"l40s", Machine("L40S", "pcie-p2p-l40s-8", 8, "infiniband-hdr", 0.0)),
    (r"\bl4\b", Machine("L4", "pcie-l4-8", 8, "infiniband-hdr", 0.0)),
)
"""By what names contain."""
_CARDS = re.compile(r"(\d+)\s*x\s*(?:HDR|EDR|NDR|XDR)?\s*(\d+)\s*G", re.IGNORECASE)
_OF_NODE = re.compile(r"(\d+)\s*Gbps/node", re.IGNORECASE)
_NOT_STATED = re.compile(r"speed not", re.IGNORECASE)
_DGX2 = re.compile(r"dgx-?2\b", re.IGNORECASE)

PROTOCOL = 0.96
"""Of a line rate, what NCCL counts on: 12 GB/s of 100 Gb/s (NCCL, src/graph/topo.h)."""


def machine_of(gpu: str) -> Machine:
    """The machine of a GPU's name; of another one that has a profile, nodes of which only the GPU is known.

    Raises:
        Unsupported: If there is no profile of it.
    """
    for pattern, machine in _MACHINES:
        if re.search(pattern, gpu, re.IGNORECASE):
            return machine
    try:
        return Machine(load_gpu(gpu).name, "")
    except UnknownNameError:
        raise Unsupported(f"no profile of GPU {gpu}") from None


def node_of(gpu: str, gpus: int) -> dict[str, Any]:
    """The ``hardware`` of an experiment with so many GPUs of one node.

    Raises:
        Unsupported: If there is no profile of the GPU, or a node has fewer.
    """
    machine = machine_of(gpu)
    if gpus > machine.domain:
        raise Unsupported(f"{gpus} GPUs, of which a node has {machine.domain}")
    return {**_profile(machine.node), "gpu": machine.gpu, "gpus_per_node": gpus}


def _profile(node: str) -> dict[str, str]:
    return {"profile": node} if node else {}


def hardware_of(gpu: str, gpus: int, nodes: int, interconnect: str) -> dict[str, Any]:
    """The ``hardware`` of an experiment with so many GPUs, joined as a table says in words.

    Raises:
        Unsupported: If there is no profile of the GPU, or nodes would have unequal numbers of GPUs.
    """
    machine = machine_of(gpu)
    per_node = _gpus_per_node(machine, gpus, nodes, interconnect)
    hardware: dict[str, Any] = {
        **_profile("dgx-2" if _DGX2.search(interconnect) else machine.node),
        "gpu": machine.gpu,
        "num_nodes": gpus // per_node,
        "gpus_per_node": per_node,
        "fabric": machine.fabric,
    }
    stated = _node_gb_per_s(interconnect, machine)
    if stated is not None and gpus > per_node and machine.domain <= 8 and stated != machine.nics_gb_per_s:
        hardware["network_bandwidth"] = f"{stated:g} GB/s"
        hardware["nics_per_node"] = per_node  # GPUs that send at once have their shares
    return hardware


def _gpus_per_node(machine: Machine, gpus: int, nodes: int, interconnect: str) -> int:
    """As many as the table says; where NVLink goes beyond a node, as many of its domain as divide the GPUs."""
    if machine.domain > 8:
        return max(size for size in range(1, machine.domain + 1) if gpus % size == 0)
    domain = 16 if _DGX2.search(interconnect) else machine.domain
    if nodes * domain < gpus:
        nodes = -(-gpus // domain)
    if gpus % nodes:
        raise Unsupported(f"{gpus} GPUs do not divide evenly among {nodes} nodes")
    return gpus // nodes


def _node_gb_per_s(interconnect: str, machine: Machine) -> float | None:
    """What the network cards of a node carry together in GB/s; none if it is not said.

    Where a source says that it does not know the speed, a node counts as having one card for all its GPUs, which is
    what the runs of the one such source show: the more a node sends, the slower they are.
    """
    if cards := _CARDS.search(interconnect):
        return int(cards[1]) * int(cards[2]) * PROTOCOL / 8.0
    if node := _OF_NODE.search(interconnect):
        return int(node[1]) * PROTOCOL / 8.0
    return machine.nics_gb_per_s / 8.0 if _NOT_STATED.search(interconnect) else None
