"""From the description of hardware and network to a `VirtualHardwarePlatform`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from simsys.build.device import build_device_spec, host_update_rate
from simsys.config.cluster import HardwareConfig, NetworkConfig
from simsys.config.hardware import FabricProfile, GpuProfile, NodeProfile, load_fabric, load_gpu, load_node
from simsys.platform.contention import NETWORKS
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.network import Network
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.platform import VirtualHardwarePlatform
from simsys.platform.topology import Topology

DEFAULT_FABRIC = "infiniband-hdr"


@dataclass(frozen=True)
class Cluster:
    """GPUs and links, ready to be simulated as often as needed.

    Args:
        gpu: The GPU profile.
        spec: The same as plain data.
        num_nodes: Nodes.
        gpus_per_node: GPUs in each.
        topology: Links.
        network: How transfers share them.
        usd_per_gpu_hour: Price of one GPU; 0 if unknown.
    """

    gpu: GpuProfile
    spec: DeviceSpec
    num_nodes: int
    gpus_per_node: int
    topology: Topology
    network: type[Network[Any]]
    usd_per_gpu_hour: float

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_nodes * self.gpus_per_node

    def platform(self) -> VirtualHardwarePlatform:
        """A platform with a clock at zero."""
        return VirtualHardwarePlatform([self.spec] * self.num_gpus, self.topology, network=self.network)

    def without_memory_limit(self) -> Cluster:
        """The same GPUs with memory for anything, to say how long a job would take that does not fit."""
        return replace(self, spec=replace(self.spec, memory_bytes=math.inf))


def build_cluster(hardware: HardwareConfig, network: NetworkConfig) -> Cluster:
    """Return the cluster that a scenario describes.

    Raises:
        UnknownNameError: If there is no such profile.
        ConfigError: If an inline GPU does not fit the schema.
        UsageError: If the topology cannot be built.
    """
    node = load_node(hardware.profile) if hardware.profile is not None else None
    gpu = load_gpu(hardware.gpu if hardware.gpu is not None else node.gpu)  # type: ignore[union-attr]
    spec = build_device_spec(gpu)
    if node is not None and node.host is not None:
        spec = replace(spec, host_update_bytes_per_s=host_update_rate(node.host, node.gpus_per_node))
    gpus_per_node = hardware.gpus_per_node or (node.gpus_per_node if node else 1)
    fabric = load_fabric(hardware.fabric or DEFAULT_FABRIC)
    nics = _nics(hardware, node, fabric, gpus_per_node)
    topology = nodes_on_fabric(
        hardware.num_nodes,
        gpus_per_node,
        inside=_inside(node, gpu),
        nics=nics,
        fabric=_fabric(hardware, network, nics, fabric),
    )
    sharing = NETWORKS[network.contention, network.switching]
    return Cluster(gpu, spec, hardware.num_nodes, gpus_per_node, topology, sharing, _price(gpu, node))


def _inside(node: NodeProfile | None, gpu: GpuProfile) -> NodeInside:
    if node is not None:
        link = node.interconnect
        return NodeInside(link.kind, link.bandwidth, link.latency)
    kind = "pcie_switch" if gpu.link.kind == "pcie" else "nvswitch"
    return NodeInside(kind, gpu.link.bandwidth, gpu.link.latency)


def _nics(hardware: HardwareConfig, node: NodeProfile | None, fabric: FabricProfile, gpus_per_node: int) -> Nics:
    """A bandwidth given by the user is that of the whole node; profiles say it per NIC."""
    if hardware.network_bandwidth is not None:
        return Nics(1, hardware.network_bandwidth, 0.0)
    if node is not None:
        # Fewer GPUs than the node has keep their share of its NICs.
        return Nics(min(node.nics.count, gpus_per_node), node.nics.bandwidth, node.nics.latency)
    return Nics(gpus_per_node, fabric.bandwidth, fabric.latency)


def _fabric(hardware: HardwareConfig, network: NetworkConfig, nics: Nics, fabric: FabricProfile) -> Fabric:
    bandwidth = network.link_bandwidth or hardware.network_bandwidth or nics.count * nics.bytes_per_s
    latency_s = network.base_latency if network.base_latency is not None else fabric.latency
    return Fabric(network.topology_type, bandwidth, latency_s)


def _price(gpu: GpuProfile, node: NodeProfile | None) -> float:
    if node is not None and node.price is not None:
        return node.price.usd_per_hour / node.gpus_per_node
    return gpu.price.usd_per_hour if gpu.price is not None else 0.0
