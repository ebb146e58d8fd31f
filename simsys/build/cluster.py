"""From the description of hardware and network to a `Platform`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simsys.build.degradations import WeakLinks, weak_links
from simsys.build.link_places import links_around
from simsys.build.network import build_topology
from simsys.build.network_text import network_text
from simsys.build.nics import check_nic, nic_warnings
from simsys.build.nodes import NodeKind, node_kinds, tuning_of, widest
from simsys.build.profiles import DEFAULT_FABRIC, hardware_profiles, origins, with_fabric
from simsys.build.sizes import size_problem
from simsys.build.unequal_gpus import device_specs, device_speeds
from simsys.collectives.choose import Tuning
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import FabricProfile, GpuProfile, load_fabric, load_gpu, no_profiles, own_folders
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError, InfeasibleError, Problem
from simsys.platform.contention import NETWORKS
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.link_spec import LinkSpec
from simsys.platform.network import Network
from simsys.platform.platform import Platform
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.sums import ordered_sum

CUSTOM = "custom"
"""Name of a custom graph that joins GPUs, or nodes of one GPU."""


@dataclass(frozen=True)
class Cluster:
    """GPUs and links of a scenario, from which any number of platforms can be made.

    Args:
        gpu: The GPU profile.
        spec: The GPU profile as plain data.
        num_nodes: Nodes.
        gpus_per_node: GPUs in each node.
        topology: The links and routes.
        num_nics: Network cards in all.
        network: The model of how transfers share the links.
        usd_per_gpu_hour: Price of one GPU; 0 if unknown.
        exceptions: GPUs that differ from `spec`, by number.
        tuning: Measured costs of collectives, or the costs of NCCL's protocols; None if they are unknown.
        nodes: The node of each GPU; empty if the GPUs fill equal nodes one after another.
        speeds: GPUs with changing speed, by number.
        links: Links that change, by index.
        surroundings: For each GPU, a value that is equal for GPUs with equivalent links; empty if all are equivalent.
        network_text: The network between nodes in one line; empty for one node.
        gpu_profiles: The profiles of all its GPUs, each once.
        origins: Settings that profiles inherit from the profiles they extend, a line each.
        warnings: Settings of its description that may have an unintended meaning.
    """

    gpu: GpuProfile
    spec: DeviceSpec
    num_nodes: int
    gpus_per_node: int
    topology: Topology
    num_nics: int
    network: type[Network[Any, Any]]
    usd_per_gpu_hour: float
    exceptions: Mapping[int, DeviceSpec] = field(default_factory=dict, hash=False)
    tuning: Tuning | None = None
    nodes: tuple[int, ...] = ()
    speeds: Mapping[int, Timeline[DeviceSpec]] = field(default_factory=dict, hash=False)
    links: Mapping[int, Timeline[LinkSpec]] = field(default_factory=dict, hash=False)
    surroundings: Sequence[Hashable] = field(default=(), hash=False)
    network_text: str = ""
    gpu_profiles: tuple[GpuProfile, ...] = ()
    origins: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def assumptions(self) -> list[str]:
        """Assumptions about the cluster, a line each."""
        return [*([self.network_text] if self.network_text else []), *self.origins]

    @property
    def num_gpus(self) -> int:
        """The number of GPUs of the cluster."""
        return self.num_nodes * self.gpus_per_node

    def platform(self) -> Platform:
        """A platform with a clock at zero."""
        return Platform(self.specs, self.topology, network=self.network, speeds=self.speeds, links=self.links)

    @property
    def specs(self) -> list[DeviceSpec]:
        """The specification of each GPU; equal ones are one object."""
        return [self.exceptions.get(gpu, self.spec) for gpu in range(self.num_gpus)]

    @property
    def smallest(self) -> DeviceSpec:
        """The GPU with the least memory."""
        return min((self.spec, *self.exceptions.values()), key=lambda spec: spec.memory_bytes)

    def kinds(self, *, links: bool = True) -> list[int]:
        """For each GPU, a number that is equal for equal GPUs; if `links`, only for GPUs with equivalent links too."""
        numbers: dict[Hashable, int] = {}
        places = self.surroundings if links and self.surroundings else (None,) * self.num_gpus
        found = enumerate(zip(self.specs, places, strict=True))
        keys = ((id(spec), id(self.speeds.get(gpu)), place) for gpu, (spec, place) in found)
        return [numbers.setdefault(key, len(numbers)) for key in keys]

    def mean_peak_flop_per_s(self, dtype: str) -> float:
        """Dense peak in a dtype, the mean over all GPUs.

        Raises:
            InfeasibleError: If some GPU cannot compute in it.
        """
        lacking = next((spec for spec in self.specs if dtype not in spec.peak_flop_per_s), None)
        if lacking is not None:
            raise InfeasibleError(
                f"{lacking.name} has no {dtype} arithmetic; it has {', '.join(lacking.peak_flop_per_s)}", "hardware"
            )
        return ordered_sum(spec.peak_flop_per_s[dtype] for spec in self.specs) / self.num_gpus

    def part(self, gpus: Sequence[int]) -> Cluster:
        """The cluster of a job on some of the GPUs, which are numbered from 0 in it.

        For a job on unequal numbers of GPUs per node, it has nodes of one GPU. The topology remains the whole
        topology.
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
            speeds={place: self.speeds[gpu] for place, gpu in enumerate(gpus) if gpu in self.speeds},
            surroundings=[self.surroundings[gpu] for gpu in gpus] if self.surroundings else (),
            num_nics=self.num_nics * len(gpus) // self.num_gpus,
            nodes=() if even else tuple(nodes),
        )

    def without_memory_limit(self) -> Cluster:
        """The same cluster with unlimited memory, to measure the time of a job that does not fit."""
        others = {id(spec): replace(spec, memory_bytes=math.inf) for spec in self.exceptions.values()}
        unlimited = {gpu: others[id(spec)] for gpu, spec in self.exceptions.items()}
        return replace(self, spec=replace(self.spec, memory_bytes=math.inf), exceptions=unlimited)


def build_cluster(hardware: HardwareConfig, network: NetworkConfig, folder: Path | None = None) -> Cluster:
    """Return the cluster that a scenario describes.

    Args:
        hardware: GPUs and nodes.
        network: The network between nodes.
        folder: Folder from which relative paths start, with the user's own profiles; by default the current folder.

    Raises:
        UnknownNameError: If there is no such profile.
        ConfigError: If an inline profile does not fit the schema, or the network does not fit the nodes.
        UsageError: If the topology cannot be built.
    """
    own = _own_profiles(hardware, network, folder or Path())
    hardware = with_fabric(hardware, own)
    fabric = load_fabric(hardware.fabric or DEFAULT_FABRIC, own)
    kinds = node_kinds(hardware, fabric, own)
    cluster = _even_cluster(hardware, network, fabric, kinds, folder or Path())
    per_node = [kind.spec for kind in kinds for _ in range(kind.count)]
    specs = device_specs(hardware, cluster.gpus_per_node, per_node, own)
    weak = weak_links(network.degradations, cluster.topology)
    profiles = list(hardware_profiles(hardware, own))
    return replace(
        cluster,
        topology=weak.topology,
        exceptions={gpu: spec for gpu, spec in enumerate(specs) if spec is not cluster.spec},
        speeds=device_speeds(hardware, cluster.gpus_per_node, specs),
        links=weak.timelines,
        surroundings=_surroundings(kinds, network.topology_type, weak, cluster),
        gpu_profiles=tuple(load_gpu(given, own) for kind, given in profiles if kind == "gpu"),
        origins=tuple(origins(profiles, own)),
    )


def _own_profiles(hardware: HardwareConfig, network: NetworkConfig, folder: Path) -> tuple[Path, ...]:
    """Folders with the user's own profiles, after a check that the cluster is not too large to build."""
    own = own_folders(folder, hardware.profile_folder)
    if hardware.profile_folder is not None and not own:
        raise ConfigError([Problem(no_profiles(hardware.profile_folder), "hardware.profile_folder")])
    too_large = size_problem(hardware, network, own)
    if too_large is not None:
        raise ConfigError([Problem(too_large[1], ".".join(map(str, too_large[0])))])
    return own


def _even_cluster(
    hardware: HardwareConfig,
    network: NetworkConfig,
    fabric: FabricProfile,
    kinds: Sequence[NodeKind],
    folder: Path,
) -> Cluster:
    """The cluster without exceptions and degradations of single GPUs and links."""
    per_node = [kind for kind in kinds for _ in range(kind.count)]
    first = kinds[0]
    topology = build_topology(
        network,
        fabric,
        len(per_node),
        first.gpus_per_node,
        [kind.inside for kind in per_node],
        [kind.nics for kind in per_node],
        widest(kinds),
        folder,
    )
    drawn = topology.name == CUSTOM
    check_nic(hardware, network, first.gpus_per_node, drawn_between_gpus=drawn)
    return Cluster(
        first.gpu,
        first.spec,
        len(per_node),
        first.gpus_per_node,
        topology,
        sum(kind.described.count for kind in per_node),
        NETWORKS[network.sharing, network.switching],
        ordered_sum(kind.usd_per_gpu_hour for kind in per_node) / len(per_node),
        tuning=tuning_of(kinds, network, fabric),
        network_text=_network_text(hardware, network, fabric, kinds, drawn=drawn),
        warnings=tuple(_warnings(hardware, network, fabric, kinds)),
    )


def _network_text(
    hardware: HardwareConfig,
    network: NetworkConfig,
    fabric: FabricProfile,
    kinds: Sequence[NodeKind],
    *,
    drawn: bool,
) -> str:
    """The network between several nodes, or the custom edges."""
    if hardware.num_nodes == 1 and not drawn:
        return ""
    nics, size = [kind.limited for kind in kinds], kinds[0].gpus_per_node
    return network_text(hardware, network, fabric, nics, size, drawn_between_gpus=drawn)


def _warnings(
    hardware: HardwareConfig, network: NetworkConfig, fabric: FabricProfile, kinds: Sequence[NodeKind]
) -> Iterator[Problem]:
    described = [kind.described for kind in kinds]
    yield from nic_warnings(hardware, network, fabric, described, kinds[0].gpus_per_node)


def _surroundings(
    kinds: Sequence[NodeKind], topology_type: str, weak: WeakLinks, cluster: Cluster
) -> Sequence[Hashable]:
    """Values that distinguish GPUs by their links: kind of node, place in a custom graph, weak links."""
    found: list[Sequence[Hashable]] = [weak.places]
    if topology_type == "custom":
        found.append(links_around(cluster.topology))
    if len(kinds) > 1:
        found.append([number for number, kind in enumerate(kinds) for _ in range(kind.count * cluster.gpus_per_node)])
    return list(zip(*(each for each in found if each), strict=True))
