"""Checks that a cluster is not too large to build, so that a typing error gives a message, not a long wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from simsys.config.cluster import HardwareConfig
from simsys.config.document import KeyPath
from simsys.config.hardware import NodeProfile, load_node
from simsys.config.network import NetworkConfig

MAX_GPUS = 131_072
MAX_MESH_LINKS = 1_100_000
"""Most links of one kind; a full mesh of 1,024 nodes has a million."""


def size_problem(
    hardware: HardwareConfig, network: NetworkConfig, paths: Sequence[Path] = ()
) -> tuple[KeyPath, str] | None:
    """The setting that makes a cluster too large, with the reason; None if it is not too large.

    Args:
        hardware: The settings of the nodes.
        network: The settings of the network.
        paths: Folders with the user's own profiles.

    Raises:
        SimsysError: If there is no such node profile.
    """
    kinds = list(_kinds(hardware, paths))
    gpus = sum(count * size for count, size, _ in kinds)
    if gpus > MAX_GPUS:
        nodes = f" ({hardware.num_nodes} nodes)" if hardware.num_nodes > 1 else ""
        return _place(hardware), f"{gpus} GPUs are too many to simulate{nodes}; at most {MAX_GPUS}"
    num_nodes = hardware.num_nodes
    if network.topology_type == "full_mesh" and num_nodes * (num_nodes - 1) > MAX_MESH_LINKS:
        most = max(n for n in range(1, num_nodes) if n * (n - 1) <= MAX_MESH_LINKS)
        message = f"a full mesh joins at most {most} nodes, not {num_nodes}; use switch, tree or torus_2d"
        return ("network", "topology_type"), message
    if (links := sum(count * _inside(size, node) for count, size, node in kinds)) > MAX_MESH_LINKS:
        message = f"GPUs that are joined in pairs inside their nodes need {links} links; at most {MAX_MESH_LINKS}"
        return _place(hardware), message
    return None


def num_gpus_of(hardware: HardwareConfig, paths: Sequence[Path] = ()) -> int:
    """The number of GPUs of a cluster, which is not built; arguments and errors as `size_problem`."""
    return sum(count * size for count, size, _ in _kinds(hardware, paths))


def _kinds(hardware: HardwareConfig, paths: Sequence[Path]) -> Iterator[tuple[int, int, NodeProfile | None]]:
    """For each kind of node: number of nodes, GPUs per node, and profile."""
    own = hardware.gpus_per_node
    for group in hardware.nodes or ():
        node = load_node(group.profile, paths)
        yield group.count, own or node.gpus_per_node, node
    if hardware.nodes is None and hardware.profile is not None:
        node = load_node(hardware.profile, paths)
        yield hardware.num_nodes, own or node.gpus_per_node, node
    elif hardware.nodes is None:
        yield hardware.num_nodes, own or 1, None


def _inside(gpus: int, node: NodeProfile | None) -> int:
    """Links between pairs of GPUs, or of sockets, inside one node."""
    if node is None:
        return 0
    inside = node.interconnect
    if inside.kind == "nvlink_mesh":
        return gpus * (gpus - 1)
    if inside.kind == "pcie_tree":
        sockets = min(inside.sockets or 1, -(-gpus // (inside.gpus_per_switch or 1)))
        return sockets * (sockets - 1)
    return 0


def _place(hardware: HardwareConfig) -> KeyPath:
    """The setting that determines the size of the cluster."""
    if hardware.nodes is not None:
        return "hardware", "nodes"
    if hardware.num_nodes > 1:
        return "hardware", "num_nodes"
    return ("hardware", "gpus_per_node") if hardware.gpus_per_node is not None else ("hardware", "profile")
