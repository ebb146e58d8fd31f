"""From the description of nodes to their parts: GPUs, interconnect, network cards and price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simsys.build.device import build_device_spec, host_update_rate
from simsys.build.nics import described_nics, limited_nics, port_limit, simulated_nics
from simsys.collectives import CollectiveKind
from simsys.collectives.choose import Tuning
from simsys.collectives.measured_costs import MeasuredCosts
from simsys.collectives.nccl import PROTOCOLS, NcclTuning
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import (
    FabricProfile,
    Given,
    GpuProfile,
    NodeProfile,
    load_gpu,
    load_node,
    missing_settings,
)
from simsys.config.network import NetworkConfig
from simsys.config.node_schema import Interconnect
from simsys.errors import ConfigError, Problem
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.nodes import Nics, NodeInside, PcieTree

GENERATIONS = ("volta", "ampere", "hopper", "blackwell")
"""Generations of GPUs in NCCL's tuning model, the oldest first."""


@dataclass(frozen=True)
class NodeKind:
    """One kind of equal nodes.

    Args:
        name: Name of their profile, or without one the name of their GPU.
        count: The number of nodes.
        gpu: The profile of their GPU.
        spec: The profile of the GPU as plain data.
        gpus_per_node: GPUs in each node.
        inside: The interconnect of the GPUs of a node.
        described: Their network cards as described.
        limited: The network cards, limited to the bandwidth of a port of the fabric.
        usd_per_gpu_hour: Price of one GPU; 0 if unknown.
        in_switch_reduction: Whether the switch inside a node can reduce the data of the GPUs.
        measured: Measured costs of collectives inside a node.
    """

    name: str
    count: int
    gpu: GpuProfile
    spec: DeviceSpec
    gpus_per_node: int
    inside: NodeInside
    described: Nics
    limited: Nics
    usd_per_gpu_hour: float
    in_switch_reduction: bool
    measured: MeasuredCosts | None = None

    @property
    def nics(self) -> Nics:
        """The network cards of a node as they are simulated."""
        return simulated_nics(self.limited, self.gpus_per_node)


def node_kinds(hardware: HardwareConfig, fabric: FabricProfile, paths: Sequence[Path] = ()) -> list[NodeKind]:
    """The nodes of a cluster, kind by kind, in the order of their numbers.

    Args:
        hardware: The settings of the nodes.
        fabric: The fabric between the nodes.
        paths: Folders with the user's own profiles.

    Raises:
        UnknownNameError: If there is no such profile.
        ConfigError: If an inline profile does not fit the schema, or kinds of nodes have different numbers of GPUs.
    """
    if not hardware.nodes:
        node = load_node(hardware.profile, paths) if hardware.profile is not None else None
        return [_kind(hardware, node, hardware.num_nodes, fabric, paths)]
    kinds: list[NodeKind] = []
    for index, group in enumerate(hardware.nodes):
        path = f"hardware.nodes[{index}].profile"
        node = load_node(group.profile, paths)
        if (hardware.gpus_per_node or 0) > node.gpus_per_node:
            message = f"a {node.name} has {node.gpus_per_node} GPUs, not {hardware.gpus_per_node} (gpus_per_node)"
            raise ConfigError([Problem(message, path)])
        kinds.append(_kind(hardware, node, group.count, fabric, paths))
        if (other := kinds[0].gpus_per_node) != (own := kinds[-1].gpus_per_node):
            fewest = min(own, other)
            message = f"a {node.name} has {own} GPUs and a {kinds[0].name} has {other}"
            advice = f"all nodes need the same number; gpus_per_node: {fewest} uses {fewest} of each"
            raise ConfigError([Problem(f"{message}; {advice}", path)])
    return kinds


def widest(kinds: Sequence[NodeKind]) -> Nics:
    """Network cards with the largest count and bandwidth of all nodes; the fabric needs ports for them."""
    cards = [kind.nics for kind in kinds]
    count, bytes_per_s = max(each.count for each in cards), max(each.bytes_per_s for each in cards)
    return replace(cards[0], count=count, bytes_per_s=bytes_per_s)


def tuning_of(kinds: Sequence[NodeKind], network: NetworkConfig, fabric: FabricProfile) -> Tuning | None:
    """Measured costs of collectives, else the costs of NCCL's protocols.

    Of several generations of GPUs the oldest decides, as in NCCL's tuning model.

    NCCL uses the lowest compute capability of all ranks (NCCL, src/graph/tuning.cc: minCompCap).
    """
    if kinds[0].measured is not None and network.tuning != "none":
        return kinds[0].measured
    generations = [kind.gpu.nccl for kind in kinds]
    if None in generations or network.tuning == "none":
        return None
    oldest = min((each for each in generations if each is not None), key=GENERATIONS.index)
    over_pcie = any(kind.inside.kind.startswith("pcie") for kind in kinds)
    reduces = all(kind.in_switch_reduction for kind in kinds)
    across = fabric.nccl_protocols or PROTOCOLS
    return NcclTuning(oldest, "pci" if over_pcie else "nvlink", reduces, across, bool(fabric.in_network_reduction))


def gpu_given(hardware: HardwareConfig, node: NodeProfile | None) -> Given:
    """The GPU of a node: the GPU of the profile, another GPU, or the GPU of the profile with changed settings.

    Raises:
        ConfigError: If a setting of the GPU would have no effect, because the node decides it.
    """
    own = hardware.gpu
    if node is None or own is None:
        return own if own is not None else node.gpu  # type: ignore[union-attr]
    if isinstance(own, str):
        return own
    if "price" in own and isinstance(hardware.profile, dict) and "price" in hardware.profile:
        message = "the node has a price too; give the price of the node or of a GPU"
        raise ConfigError([Problem(message, "hardware.gpu.price")])
    whole = not missing_settings(own, GpuProfile)
    if not whole:
        _check_decided_by_gpu(own, node)
    return own if whole or "extends" in own else {"extends": node.gpu, **own}


def _check_decided_by_gpu(own: Mapping[str, Any], node: NodeProfile) -> None:
    """Refuse changes of a GPU that have no effect in a node, which has its own interconnect and host."""
    link = own.get("link")
    if isinstance(link, Mapping) and ("bandwidth" in link or "latency" in link):
        message = f"the interconnect of {node.name} joins its GPUs; write profile: {{extends: …, interconnect: …}}"
        raise ConfigError([Problem(message, "hardware.gpu.link")])
    if "host" in own and node.host is not None:
        message = f"the host of {node.name} serves its GPUs; write profile: {{extends: …, host: …}}"
        raise ConfigError([Problem(message, "hardware.gpu.host")])


def _kind(
    hardware: HardwareConfig, node: NodeProfile | None, count: int, fabric: FabricProfile, paths: Sequence[Path]
) -> NodeKind:
    gpu = load_gpu(gpu_given(hardware, node), paths)
    spec = build_device_spec(gpu)
    if node is not None and node.host is not None:
        rate = host_update_rate(node.host, node.gpus_per_node)
        spec = replace(spec, host_update_bytes_per_s=rate, host_speed=node.host.core_speed or 1.0)
    gpus_per_node = hardware.gpus_per_node or (node.gpus_per_node if node else 1)
    if node is not None and node.shared_memory_bandwidth is not None:
        part = node.shared_memory_bandwidth / gpus_per_node
        spec = replace(spec, memory_bytes_per_s=min(spec.memory_bytes_per_s, part))
    described = described_nics(hardware, node, fabric, gpus_per_node)
    limited = limited_nics(described, port_limit(hardware, fabric))
    reduces = node is not None and bool(node.interconnect.in_switch_reduction)
    name = gpu.name if node is None else node.name
    price = _price(hardware, gpu, node)
    inside, measured = _inside(node, gpu), None if node is None else _measured(node)
    return NodeKind(name, count, gpu, spec, gpus_per_node, inside, described, limited, price, reduces, measured)


def _measured(node: NodeProfile) -> MeasuredCosts | None:
    given = node.interconnect.collectives
    if given is None:
        return None
    links = {CollectiveKind(kind): link for kind, link in given.items()}
    return MeasuredCosts(
        {kind: link.latency for kind, link in links.items()}, {kind: link.bandwidth for kind, link in links.items()}
    )


def _inside(node: NodeProfile | None, gpu: GpuProfile) -> NodeInside:
    if node is not None:
        link = node.interconnect
        return NodeInside(link.kind, link.bandwidth, link.latency, _pcie_tree(link))
    kind = {"pcie": "pcie_switch", "shared_memory": "shared_memory"}.get(gpu.link.kind, "nvswitch")
    return NodeInside(kind, gpu.link.bandwidth, gpu.link.latency)


def _pcie_tree(link: Interconnect) -> PcieTree | None:
    if link.gpus_per_switch is None:
        return None
    uplink, sockets = link.uplink or link, link.socket_link
    tree = PcieTree(link.gpus_per_switch, uplink.bandwidth, uplink.latency, link.sockets or 1)
    if sockets is None:
        return tree
    return replace(tree, socket_bytes_per_s=sockets.bandwidth, socket_latency_s=sockets.latency)


def _price(hardware: HardwareConfig, gpu: GpuProfile, node: NodeProfile | None) -> float:
    """Price of one GPU: from the experiment, else its share of the node's price."""
    own = isinstance(hardware.gpu, dict) and "price" in hardware.gpu
    if node is not None and node.price is not None and not own:
        return node.price.usd_per_hour / node.gpus_per_node
    return gpu.price.usd_per_hour if gpu.price is not None else 0.0
