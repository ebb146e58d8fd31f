"""A network of single GPUs: routes, hops and neighbours, from the topologies of the platform."""

from __future__ import annotations

from typing import Any

from simsys.build.cluster import build_cluster
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.config.validation import validate


class TopologyManager:
    """The network of nodes with one GPU each.

    Args:
        topology_type: As ``network.topology_type`` of an experiment file: ``full_mesh``, ``ring``, ``tree``,
            ``torus_2d``, ``switch`` and others. Except for a switch, its vertices are the nodes.
        num_nodes: Nodes.
        network: Further settings of the section ``network``, such as ``{"base_latency_us": 5.0}``.

    Raises:
        ConfigError: If such a network cannot be built.

    Example:
        >>> from simsys.compat import TopologyManager
        >>> topology = TopologyManager("ring", 8)
        >>> topology.get_route(0, 3), topology.adjacency[0]
        ([0, 1, 2, 3], [1, 7])
    """

    def __init__(self, topology_type: str, num_nodes: int, network: dict[str, Any] | None = None) -> None:
        hardware = validate({"gpu": "H100-SXM", "num_nodes": num_nodes}, HardwareConfig)
        settings = validate({"topology_type": topology_type, **(network or {})}, NetworkConfig)
        self.platform = build_cluster(hardware, settings).platform()

    @property
    def adjacency(self) -> dict[int, list[int]]:
        """The vertices to which each vertex has a link."""
        topology = self.platform.network.topology
        found: dict[int, list[int]] = {vertex: [] for vertex in range(topology.num_vertices)}
        for link in topology.links:
            found[link.src].append(link.dst)
        return {vertex: sorted(set(others)) for vertex, others in found.items()}

    def get_route(self, src: int, dst: int) -> list[int]:
        """The vertices of a shortest way, both ends included.

        Raises:
            UsageError: If there is no such node.
        """
        return self.platform.get_route(src, dst)

    def get_hops(self, src: int, dst: int) -> int:
        """The number of links on the way."""
        return len(self.get_route(src, dst)) - 1

    def get_latency(self, src: int, dst: int) -> float:
        """The latency of the way in seconds."""
        self.get_route(src, dst)  # refuses nodes that there are not
        return self.platform.network.idle_path([(src, dst)])[0]
