"""From the description of hardware and network to a `VirtualHardwarePlatform`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simsys.build.device import build_device_spec, host_update_rate
from simsys.build.exceptions import device_exceptions
from simsys.build.network import build_topology
from simsys.collectives.nccl import NcclTuning
from simsys.config.cluster import HardwareConfig, NetworkConfig
from simsys.config.hardware import FabricProfile, GpuProfile, NodeProfile, load_fabric, load_gpu, load_node
from simsys.config.hardware_schema import Interconnect
from simsys.errors import InfeasibleError
from simsys.platform.contention import NETWORKS
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.network import Network
from simsys.platform.nodes import Nics, NodeInside, PcieTree
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
        nics_per_node: Network cards in each node.
        network: How transfers share them.
        usd_per_gpu_hour: Price of one GPU; 0 if unknown.
        exceptions: GPUs that differ from `spec`, by number.
        tuning: What NCCL's protocols cost on it; none if that is not known.
        nodes: The node of each GPU, if they do not fill nodes evenly, one after another.
    """

    gpu: GpuProfile
    spec: DeviceSpec
    num_nodes: int
    gpus_per_node: int
    topology: Topology
    nics_per_node: int
    network: type[Network[Any]]
    usd_per_gpu_hour: float
    exceptions: Mapping[int, DeviceSpec] = field(default_factory=dict, hash=False)
    tuning: NcclTuning | None = None
    nodes: tuple[int, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_nodes * self.gpus_per_node

    @property
    def num_nics(self) -> int:
        """Network cards in all."""
        return self.num_nodes * self.nics_per_node

    def platform(self) -> VirtualHardwarePlatform:
        """A platform with a clock at zero."""
        return VirtualHardwarePlatform(self.specs, self.topology, network=self.network)

    @property
    def specs(self) -> list[DeviceSpec]:
        """What each GPU can do; equal ones are the same object."""
        return [self.exceptions.get(gpu, self.spec) for gpu in range(self.num_gpus)]

    @property
    def smallest(self) -> DeviceSpec:
        """The GPU with the least memory."""
        return min((self.spec, *self.exceptions.values()), key=lambda spec: spec.memory_bytes)

    def kinds(self) -> list[int]:
        """For each GPU, a number that is the same for equal ones."""
        numbers: dict[int, int] = {}
        return [numbers.setdefault(id(spec), len(numbers)) for spec in self.specs]

    def mean_peak_flop_per_s(self, dtype: str) -> float:
        """Dense peak in a dtype, the mean over all GPUs.

        Raises:
            InfeasibleError: If some GPU cannot compute in it.
        """
        lacking = next((spec for spec in self.specs if dtype not in spec.peak_flop_per_s), None)
        if lacking is not None:
            raise InfeasibleError(
                f"{lacking.name} has no {dtype} arithmetic; it has {', '.join(lacking.peak_flop_per_s)}"
            )
        return sum(spec.peak_flop_per_s[dtype] for spec in self.specs) / self.num_gpus

    def part(self, gpus: Sequence[int]) -> Cluster:
        """The cluster as a job on some of its GPUs sees it, which are numbered from 0 there.

        A job on unequal numbers of GPUs per node sees nodes of one GPU. The topology remains that of the whole.
        """
        nodes = [gpu // self.gpus_per_node for gpu in gpus]
        each = len(gpus) // len(set(nodes))
        even = nodes == [node for node in dict.fromkeys(nodes) for _ in range(each)]
        exceptions = {place: self.exceptions[gpu] for place, gpu in enumerate(gpus) if gpu in self.exceptions}
        return replace(
            self,
            num_nodes=len(gpus) // each if even else len(gpus),
            gpus_per_node=each if even else 1,
            exceptions=exceptions,
            nodes=() if even else tuple(nodes),
        )

    def without_memory_limit(self) -> Cluster:
        """The same GPUs with memory for anything, to say how long a job would take that does not fit."""
        unlimited = {gpu: replace(spec, memory_bytes=math.inf) for gpu, spec in self.exceptions.items()}
        return replace(self, spec=replace(self.spec, memory_bytes=math.inf), exceptions=unlimited)


def build_cluster(hardware: HardwareConfig, network: NetworkConfig, folder: Path | None = None) -> Cluster:
    """Return the cluster that a scenario describes.

    Args:
        hardware: GPUs and nodes.
        network: What joins them.
        folder: Where the path of a file of edges starts; by default the current folder.

    Raises:
        UnknownNameError: If there is no such profile.
        ConfigError: If an inline GPU does not fit the schema, or the network does not fit the nodes.
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
    topology = build_topology(
        network,
        fabric,
        hardware.num_nodes,
        gpus_per_node,
        _inside(node, gpu),
        nics,
        folder or Path(),
    )
    sharing, price = NETWORKS[network.contention, network.switching], _price(gpu, node)
    cluster = Cluster(gpu, spec, hardware.num_nodes, gpus_per_node, topology, nics.count, sharing, price)
    return replace(cluster, exceptions=device_exceptions(hardware, cluster), tuning=_tuning(gpu, node, network))


def _inside(node: NodeProfile | None, gpu: GpuProfile) -> NodeInside:
    if node is not None:
        link = node.interconnect
        return NodeInside(link.kind, link.bandwidth, link.latency, _pcie_tree(link))
    kind = "pcie_switch" if gpu.link.kind == "pcie" else "nvswitch"
    return NodeInside(kind, gpu.link.bandwidth, gpu.link.latency)


def _tuning(gpu: GpuProfile, node: NodeProfile | None, network: NetworkConfig) -> NcclTuning | None:
    if gpu.nccl is None or network.tuning == "none":
        return None
    reduces = node is not None and bool(node.interconnect.in_switch_reduction)
    return NcclTuning(gpu.nccl, "pci" if _inside(node, gpu).kind.startswith("pcie") else "nvlink", reduces)


def _pcie_tree(link: Interconnect) -> PcieTree | None:
    if link.gpus_per_switch is None:
        return None
    uplink, sockets = link.uplink or link, link.socket_link
    tree = PcieTree(link.gpus_per_switch, uplink.bandwidth, uplink.latency, link.sockets or 1)
    if sockets is None:
        return tree
    return replace(tree, socket_bytes_per_s=sockets.bandwidth, socket_latency_s=sockets.latency)


def _nics(hardware: HardwareConfig, node: NodeProfile | None, fabric: FabricProfile, gpus_per_node: int) -> Nics:
    """A bandwidth given by the user is that of the whole node; profiles say it per NIC."""
    if hardware.network_bandwidth is not None:
        return Nics(1, hardware.network_bandwidth, 0.0)
    if node is not None:
        # Fewer GPUs than the node has keep their share of its NICs.
        return Nics(min(node.nics.count, gpus_per_node), node.nics.bandwidth, node.nics.latency)
    return Nics(gpus_per_node, fabric.bandwidth, fabric.latency)


def _price(gpu: GpuProfile, node: NodeProfile | None) -> float:
    if node is not None and node.price is not None:
        return node.price.usd_per_hour / node.gpus_per_node
    return gpu.price.usd_per_hour if gpu.price is not None else 0.0
