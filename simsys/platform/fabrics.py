"""All topologies by the name that an experiment file uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simsys.platform.custom_graph import custom_graph
from simsys.platform.dragonfly import dragonfly
from simsys.platform.fat_tree import fat_tree, rail_optimized
from simsys.platform.topology import Topology, binary_tree, full_mesh, ring, single_switch, torus_2d, torus_3d

TOPOLOGY_TYPES: Mapping[str, Callable[..., Topology]] = {
    "full_mesh": full_mesh,
    "ring": ring,
    "tree": binary_tree,
    "torus_2d": torus_2d,
    "torus_3d": torus_3d,
    "switch": single_switch,
    "fat_tree": fat_tree,
    "rail_optimized": rail_optimized,
    "dragonfly": dragonfly,
    "custom": custom_graph,
}
"""Builders of (GPUs, bandwidth in bytes/s and latency in s of every link, further settings by keyword)."""

PORT_PER_NIC = frozenset({"switch", "fat_tree", "rail_optimized", "dragonfly"})
"""Fabrics with a port per NIC; in other fabrics a node is one vertex."""

GROUPED = PORT_PER_NIC - {"switch"}
"""Fabrics that depend on the ports of a node (`per_node`)."""
