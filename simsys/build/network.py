"""From the description of the network to its links: a fabric between nodes, or a custom graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from simsys.config.csv_table import CsvTable, at_setting
from simsys.config.document import Document, KeyPath
from simsys.config.edges import EdgeConfig, read_edges
from simsys.config.hardware import FabricProfile
from simsys.config.network import SETTINGS_OF, NetworkConfig, RoutingConfig
from simsys.config.validation import dotted, problem_at
from simsys.errors import ConfigError, Problem
from simsys.input_files import path_from
from simsys.platform.custom_graph import Edge, custom_graph, edge_problems, joined
from simsys.platform.fat_tree import DEFAULT_RADIX
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology, TopologyError, with_nodes

T = TypeVar("T")

_KEYS = {"src": "from", "dst": "to"}


def build_topology(
    network: NetworkConfig,
    profile: FabricProfile,
    num_nodes: int,
    gpus_per_node: int,
    inside: Sequence[NodeInside],
    nics: Sequence[Nics],
    widest: Nics,
    folder: Path,
) -> Topology:
    """The links of a cluster.

    Args:
        network: The user's settings of the network.
        profile: The fabric, for settings that the user leaves out.
        num_nodes: Nodes.
        gpus_per_node: GPUs of each.
        inside: The interconnect of the GPUs of each node.
        nics: The network cards of each node.
        widest: Network cards with the largest count and bandwidth of all nodes.
        folder: Folder from which the path of a file of edges starts.

    Raises:
        ConfigError: With the settings of the network that do not fit the cluster, each with its place.
        UsageError: If the hardware does not fit together.
    """
    routing = _routing(network.routing)
    latency_s = network.base_latency if network.base_latency is not None else profile.latency
    settings: dict[str, Any] = {}
    if network.topology_type == "custom":
        edges = _edges(network, num_nodes, gpus_per_node, folder)
        if joined(edges) == "gpu":
            one_gpu = network.link_bandwidth or widest.bytes_per_s
            graph = custom_graph(num_nodes * gpus_per_node, one_gpu, latency_s, edges=edges)
            return with_nodes(graph, gpus_per_node, routing)
        settings = {"edges": edges}
    else:
        settings = {name: getattr(network, name) for name in SETTINGS_OF if name != "pxn"}
        settings = {name: value for name, value in settings.items() if value is not None}
        if network.topology_type in SETTINGS_OF["radix"]:
            settings.setdefault("radix", profile.radix or DEFAULT_RADIX)
    bytes_per_s = network.link_bandwidth or widest.count * widest.bytes_per_s
    pxn = network.topology_type == "rail_optimized" and network.pxn is not False
    fabric = Fabric(network.topology_type, bytes_per_s, latency_s, settings, routing, pxn)
    return _placed(lambda: nodes_on_fabric(num_nodes, gpus_per_node, inside=inside, nics=nics, fabric=fabric))


def _routing(given: RoutingConfig | None) -> Routing | None:
    """The routing that the user sets; None for the default of the topology."""
    return None if given is None else Routing(**given.model_dump(exclude_none=True))


def _placed(build: Callable[[], T]) -> T:
    """Call `build`; an error of a topology is reported at the setting that causes it."""
    try:
        return build()
    except TopologyError as error:
        raise ConfigError([Problem(str(error), f"network.{error.setting}")]) from None


def _edges_of(path: Path) -> tuple[Sequence[EdgeConfig], Document | CsvTable]:
    """The edges of a file; a missing file is reported at the setting.

    Raises:
        ConfigError: With every problem.
    """
    try:
        return read_edges(path)
    except ConfigError as error:
        raise at_setting(error, path, ("network", "edges_file")) from None


def _edges(network: NetworkConfig, num_nodes: int, gpus_per_node: int, folder: Path) -> list[Edge]:
    """The edges of a custom graph, checked against the cluster."""
    given: Sequence[EdgeConfig]
    source: Document | CsvTable | None = None
    if network.edges_file is not None:
        given, source = _edges_of(path_from(folder, network.edges_file))
    else:
        given = network.edges or ()
    edges = [Edge(each.src, each.dst, each.bandwidth, each.latency, each.bidirectional, each.kind) for each in given]
    problems = edge_problems(edges, num_nodes * (gpus_per_node if joined(edges) == "gpu" else 1))
    if not problems:
        return edges
    found = []
    for problem in problems:
        at: KeyPath = () if problem.edge is None else (problem.edge, _KEYS[problem.field])
        if source is None:
            found.append(Problem(problem.message, dotted(("network", "edges", *at))))
        else:
            found.append(problem_at(source, ("edges", *at), problem.message))
    raise ConfigError(found)
