"""From a machine to a node profile, with what it assumes.

Rates are those that NCCL counts with, as in the shipped profiles, so that an imported DGX equals the shipped one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simsys.config.hardware import GpuProfile, NodeProfile, load_gpu, load_node, profile_names
from simsys.config.validation import validate
from simsys.machines.gpu_names import gpu_profile_of
from simsys.machines.machine import Machine
from simsys.machines.rates import NET_RATE, TOPO_H, NvlinkGeneration, generation_of, pcie_rate, socket_rate
from simsys.platform.node_topologies import DGX1_NVLINKS
from simsys.report.yaml_text import yaml_text
from simsys.units import Dimension, format_quantity

SWITCH_HOP, DIRECT_HOP, PCIE_HOP, NIC_HOP, NIC_HOP_IN_TREE = "300 ns", "600 ns", "500 ns", "1.2 us", "700 ns"
_LATENCY = {
    "nvswitch": "half of NCCL's fastest step (LL) over NVLink, 0.6 us (src/graph/tuning.cc)",
    "nvlink_mesh": "NCCL's fastest step (LL) over NVLink, 0.6 us (src/graph/tuning.cc)",
    "hybrid_cube_mesh": "NCCL's fastest step (LL) over NVLink, 0.6 us (src/graph/tuning.cc)",
    "pcie_tree": "half of NCCL's fastest step (LL) over PCI, 1.0 us (src/graph/tuning.cc)",
    "pcie_switch": "half of NCCL's fastest step (LL) over PCI, 1.0 us (src/graph/tuning.cc)",
}


@dataclass(frozen=True)
class ImportedProfile:
    """A node profile of a machine.

    Args:
        name: Its name.
        data: Its settings, as in a file.
        machine: The machine.
        notes: What was assumed, or cannot be expressed; for people.
    """

    name: str
    data: dict[str, Any]
    machine: Machine
    notes: Sequence[str]

    def text(self) -> str:
        """The content of the file of the profile."""
        head = [f"# Made by simsys import-topology from {Path(self.machine.source).name}, {self.machine.kind}."]
        return "\n".join([*head, *(f"# {note}" for note in self.notes), yaml_text(self.data)])


@dataclass
class _Node:
    """A node profile that is being made."""

    data: dict[str, Any]
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def node_profile(machine: Machine, name: str, gpu: str | None = None, nic: float | None = None) -> ImportedProfile:
    """Make a node profile.

    Args:
        machine: The machine.
        name: Name of the profile.
        gpu: Profile of its GPUs; by default that of the model that the file names.
        nic: Bandwidth of each network card in bytes/s, as it shall stand in the profile; by default as the file states
            its line rate, or that of a shipped node with these GPUs.

    Raises:
        ConfigError: If the GPU is unknown.
        UnknownNameError: If there is no such GPU profile.
    """
    profile = load_gpu(gpu_profile_of(machine, gpu))
    node = _Node({"name": name, "gpu": profile.name, "gpus_per_node": len(machine.gpus)})
    node.sources["gpus_per_node"] = f"{machine.kind}: {len(machine.gpus)} GPUs"
    _add_interconnect(node, machine, profile)
    _add_nics(node, machine, profile, nic)
    data = {**node.data, "sources": node.sources}
    validate(data, NodeProfile)
    return ImportedProfile(name, data, machine, node.notes)


def _rate(bytes_per_s: float) -> str:
    return format_quantity(bytes_per_s, Dimension.BYTES_PER_SECOND)


def _add_interconnect(node: _Node, machine: Machine, profile: GpuProfile) -> None:
    """Describe how the GPUs are joined."""
    links, generation = machine.nvlinks, generation_of(profile)
    if not links and not any(machine.switched):
        _add_pcie(node, machine, profile)
        return
    if generation is None:
        node.notes.append(f"{profile.name} has no known NVLinks; they are left out")
        _add_pcie(node, machine, profile)
        return
    count = len(machine.gpus)
    whole = len(links) == count * (count - 1) // 2
    if any(machine.switched):
        _add_switch(node, machine, generation, min(machine.switched), "to NVSwitches")
    elif links == DGX1_NVLINKS:
        _add_nvlinks(node, generation, "hybrid_cube_mesh", 1, "the NVLinks of a DGX-1, one by one")
        node.notes.append("rings in the order of ranks use some links twice; see the shipped profile dgx-v100")
    elif whole and len(set(links.values())) == 1:
        (each,) = set(links.values())
        if count == 2 or each * (count - 1) <= generation.links:
            text = f"{each} to each of {count - 1} GPUs" if count > 2 else f"NV{each} between both GPUs"
            _add_nvlinks(node, generation, "nvlink_mesh", each * (count - 1), text)
            if count > 2:
                node.notes.append("bandwidth of the mesh: all NVLinks of a GPU together, as rings of NCCL use them")
        else:
            _add_switch(node, machine, generation, each, "between every two GPUs, so through NVSwitches")
    else:
        pairs = ", ".join(f"GPU{one}-GPU{other} NV{number}" for (one, other), number in sorted(links.items())[:4])
        node.notes.append(f"NVLinks that do not join all GPUs alike ({pairs} …) cannot be expressed and are left out")
        _add_pcie(node, machine, profile)


def _add_switch(node: _Node, machine: Machine, generation: NvlinkGeneration, count: int, what: str) -> None:
    reduces = generation.capability >= 90
    _add_nvlinks(node, generation, "nvswitch", count, f"NV{count} {what}")
    if any(machine.switched) and len(set(machine.switched)) > 1:
        node.notes.append(f"GPUs have {sorted(set(machine.switched))} NVLinks to switches; the least counts for all")
    node.data["interconnect"]["in_switch_reduction"] = reduces
    text = "NVIDIA NVSwitch of the third generation and later: SHARP, assumed to be enabled"
    node.sources["interconnect.in_switch_reduction"] = text if reduces else "older NVSwitches have no SHARP"


def _add_nvlinks(node: _Node, generation: NvlinkGeneration, kind: str, count: int, what: str) -> None:
    latency = SWITCH_HOP if kind == "nvswitch" else DIRECT_HOP
    rate = count * generation.bytes_per_s
    node.data["interconnect"] = {"kind": kind, "bandwidth": _rate(rate), "latency": latency}
    each = _rate(generation.bytes_per_s)
    node.sources["interconnect.bandwidth"] = f"{what}; {TOPO_H}: {each} for each link ({generation.name})"
    node.sources["interconnect.latency"] = _LATENCY[kind]


def _add_pcie(node: _Node, machine: Machine, profile: GpuProfile) -> None:
    """Describe GPUs that are joined by PCIe: below switches of equal size, or below one."""
    rate, source = pcie_rate(machine, profile)
    switches, sockets = machine.clusters("PXB"), machine.clusters("NODE")
    size = len(switches[0])
    even = all(len(each) == size and each[-1] - each[0] == size - 1 for each in switches)
    if len(switches) == 1 or not even or len(switches) % len(sockets):
        node.data["interconnect"] = {"kind": "pcie_switch", "bandwidth": _rate(rate), "latency": PCIE_HOP}
        node.sources |= {"interconnect.bandwidth": source, "interconnect.latency": _LATENCY["pcie_switch"]}
        if len(switches) > 1:
            text = "; ".join(" ".join(f"GPU{gpu}" for gpu in each) for each in switches[:8])
            node.notes.append(f"PCIe switches of unequal size ({text}) cannot be expressed; one switch stands for all")
        return
    inside: dict[str, Any] = {"kind": "pcie_tree", "bandwidth": _rate(rate), "latency": PCIE_HOP}
    inside |= {"gpus_per_switch": size, "uplink": {"bandwidth": _rate(rate), "latency": PCIE_HOP}}
    node.sources |= {
        "interconnect.bandwidth": source,
        "interconnect.latency": _LATENCY["pcie_tree"],
        "interconnect.gpus_per_switch": f"GPUs that PIX or PXB joins, in {machine.kind}",
        "interconnect.uplink": "assumed: as a GPU's link",
    }
    if len(sockets) > 1:
        between, why = socket_rate(machine)
        inside |= {"sockets": len(sockets), "socket_link": {"bandwidth": _rate(between), "latency": PCIE_HOP}}
        node.sources["interconnect.sockets"] = "NUMA domains that SYS separates"
        node.sources["interconnect.socket_link"] = f"{why}; latency assumed"
    node.data["interconnect"] = inside


def _add_nics(node: _Node, machine: Machine, profile: GpuProfile, given: float | None) -> None:
    """Describe the network cards that are nearest to the GPUs."""
    nearest = machine.nearest_nics()
    best = min((distance for distance, _ in nearest), key=("PIX", "PXB", "PHB", "NODE", "SYS").index)
    wanted = ("PIX", "PXB") if best in ("PIX", "PXB") else (best,)
    cards = sorted({nic for distance, found in nearest if distance in wanted for nic in found})
    rate, source = _nic_rate(node, machine, profile, cards, given)
    count = max(1, len(cards))
    in_tree = node.data["interconnect"]["kind"] == "pcie_tree"
    latency = NIC_HOP_IN_TREE if in_tree else NIC_HOP
    node.data["nics"] = {"count": count, "bandwidth": _rate(rate), "latency": latency}
    node.sources |= {
        "nics.count": _count_text(machine, cards, wanted),
        "nics.bandwidth": source,
        "nics.latency": "GPU memory to wire, PCIe included: NCCL's fastest network step (ring LL), 2.7 us "
        "(src/graph/tuning.cc), less two switch hops, halved"
        + ("; and less the GPU's PCIe link, which is a link of its own here" if in_tree else ""),
    }
    if not cards:
        node.notes.append("no network card is listed; one is assumed")
        return
    node.notes += _nic_notes(machine, nearest, cards, count)


def _count_text(machine: Machine, cards: Sequence[int], wanted: Sequence[str]) -> str:
    if not cards:
        return "assumed: the file lists no network card"
    names = ", ".join(machine.nics[card].name for card in cards)
    return f"cards at {' or '.join(wanted)} of a GPU: {names}"


def _nic_notes(
    machine: Machine, nearest: Sequence[tuple[str, Sequence[int]]], cards: Sequence[int], count: int
) -> Iterator[str]:
    """Cards that are left out, GPUs that are far from cards, and GPUs whose simulated card is not a nearest one."""
    others = [nic.name for number, nic in enumerate(machine.nics) if number not in cards]
    if others:
        yield f"network cards that are not near a GPU are left out: {', '.join(others)}"
    far = [f"GPU{gpu} {distance}" for gpu, (distance, _) in enumerate(nearest) if distance not in ("PIX", "PXB")]
    if far:
        yield f"traffic of {', '.join(far)} crosses a processor on its way to a card; that is not simulated"
    gpus = len(machine.gpus)
    if count > gpus:
        yield f"{count} network cards for {gpus} GPUs: if some are functions of one card, give --nic the share of each"
    simulated = [cards[min(gpu * count // gpus, len(cards) - 1)] for gpu in range(gpus)]
    if count <= gpus:
        moved = [gpu for gpu, (_, found) in enumerate(nearest) if simulated[gpu] not in found]
        if moved:
            names = ", ".join(f"GPU{gpu} {machine.nics[simulated[gpu]].name}" for gpu in moved)
            yield f"GPUs use cards in order of their numbers, so these use another than the nearest: {names}"


def _nic_rate(
    node: _Node, machine: Machine, profile: GpuProfile, cards: Sequence[int], given: float | None
) -> tuple[float, str]:
    """Bandwidth of each card, and where it comes from."""
    if given is not None:
        return given, "given to simsys import-topology"
    rates = [machine.nics[card].bits_per_s for card in cards]
    known = [rate for rate in rates if rate]
    if known and len(known) == len(rates):
        if len(set(known)) > 1:
            node.notes.append("network cards have different line rates; the lowest counts for all")
        line = min(known)
        return NET_RATE * line, f"line rate {line / 1e9:g} Gb/s; {TOPO_H}: 12 GB/s for 100 Gb/s"
    alike = [each for each in map(load_node, profile_names("node")) if each.gpu == profile.name and each.nics]
    # First as many cards, then machines of no cloud, whose cards may be slower than their port.
    like = min(alike, key=lambda each: (_cards(each) != len(cards), bool(each.fabric)), default=None)
    if like is None or like.nics is None:
        node.notes.append("bandwidth of network cards: assumed, 100 Gb/s; give --nic")
        return NET_RATE * 100e9, "assumed: 100 Gb/s; the file states no line rate"
    node.notes.append(f"bandwidth of network cards: assumed, as of {like.name}; give --nic")
    return like.nics.bandwidth, f"assumed, as of {like.name}: the file states no line rate"


def _cards(node: NodeProfile) -> int:
    """The number of network cards of a node."""
    return node.nics.count if node.nics is not None else 0
