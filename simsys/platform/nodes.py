"""Clusters of equal nodes: GPUs joined inside each node, nodes joined by a fabric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from simsys.errors import UnknownNameError, UsageError
from simsys.platform.topology import TOPOLOGY_TYPES, LinkSpec, Topology, both_ways, check_count


@dataclass(frozen=True, slots=True)
class NodeInside:
    """How the GPUs of one node are joined.

    Args:
        kind: ``nvswitch`` or ``pcie_switch`` (one link from each GPU to a switch), or ``nvlink_mesh`` (one
            link for each pair of GPUs).
        bytes_per_s: Bandwidth of each link and direction.
        latency_s: Latency of each link; through a switch a transfer takes two.
    """

    kind: str
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Nics:
    """The network cards of one node.

    Args:
        count: At most one per GPU; with fewer, GPU i uses card i·count//gpus and shares it.
        bytes_per_s: Bandwidth of each card and direction.
        latency_s: Latency of each card.
    """

    count: int
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Fabric:
    """What joins the nodes.

    Args:
        kind: A name in `TOPOLOGY_TYPES`; its GPUs are the nodes' routers.
        bytes_per_s: Bandwidth of each link and direction; a link carries all the traffic of a node, so
            give count times the bandwidth of a NIC if the fabric shall not be the bottleneck.
        latency_s: Latency of each link.
    """

    kind: str
    bytes_per_s: float
    latency_s: float


def nodes_on_fabric(
    num_nodes: int,
    gpus_per_node: int,
    inside: NodeInside | None = None,
    nics: Nics | None = None,
    fabric: Fabric | None = None,
) -> Topology:
    """A cluster of equal nodes; GPU i of node k is vertex k·gpus_per_node + i.

    A GPU reaches its node's router over its NIC, and the routers are joined by the fabric. On a switch, each NIC
    has a port of its own with its share of the node's bandwidth, so NICs do not wait for each other; on other
    fabrics a node has one router. Traffic between GPUs of one node stays inside the node. Nodes of one GPU have
    neither inside nor NICs: the GPU itself is on the fabric.

    Args:
        num_nodes: Nodes; one node has no NICs and no fabric.
        gpus_per_node: GPUs of each node.
        inside: Needed if a node has several GPUs.
        nics: Needed if there are several nodes of several GPUs.
        fabric: Needed if there are several nodes.

    Raises:
        UsageError: A number is out of range or a needed part is missing.
        UnknownNameError: `inside` or `fabric` is of an unknown kind.
    """
    check_count("num_nodes", num_nodes)
    check_count("gpus_per_node", gpus_per_node)
    ports = max(nics.count, 1) if nics is not None and fabric is not None and fabric.kind == "switch" else 1
    outside = _fabric_topology(num_nodes, fabric, 1 if gpus_per_node == 1 else ports)
    if gpus_per_node == 1:
        return outside
    nodes = [range(k * gpus_per_node, (k + 1) * gpus_per_node) for k in range(num_nodes)]
    num_gpus = vertices = num_nodes * gpus_per_node
    links: list[LinkSpec] = []
    for gpus in nodes:  # these come first, so that of equally short ways the one inside the node is taken
        links += _inside_links(gpus, inside, switch=vertices)
        vertices += 1 if inside is not None and inside.kind != "nvlink_mesh" else 0
    name = f"{num_nodes} x {gpus_per_node} GPUs"
    if num_nodes == 1:
        return Topology(num_gpus, vertices, tuple(links), name, gpus_per_node)
    first_nic = vertices + outside.num_vertices
    for node, gpus in enumerate(nodes):
        routers = range(vertices + node * ports, vertices + (node + 1) * ports)
        nic_links, first_nic = _nic_links(gpus, nics, routers, first_nic)
        links += nic_links
    links += [
        LinkSpec(vertices + link.src, vertices + link.dst, link.bytes_per_s, link.latency_s, link.kind)
        for link in outside.links
    ]
    return Topology(num_gpus, first_nic, tuple(links), f"{name} on {outside.name}", gpus_per_node)


def _fabric_topology(num_nodes: int, fabric: Fabric | None, ports: int) -> Topology:
    """The fabric between the nodes' routers, `ports` of them per node, node by node."""
    if num_nodes == 1:
        return Topology(1, 1, (), "1 node")
    if fabric is None:
        raise UsageError(f"{num_nodes} nodes need a fabric between them")
    if fabric.kind not in TOPOLOGY_TYPES:
        raise UnknownNameError("fabric", fabric.kind, TOPOLOGY_TYPES)
    return TOPOLOGY_TYPES[fabric.kind](num_nodes * ports, fabric.bytes_per_s / ports, fabric.latency_s)


def _inside_links(gpus: Sequence[int], inside: NodeInside | None, switch: int) -> Iterator[LinkSpec]:
    if inside is None:
        raise UsageError(f"a node of {len(gpus)} GPUs needs an inside that joins them")
    pairs: Iterable[tuple[int, int]]
    if inside.kind == "nvlink_mesh":
        pairs = ((i, j) for i in gpus for j in gpus if i != j)
    elif inside.kind in ("nvswitch", "pcie_switch"):
        pairs = (pair for gpu in gpus for pair in both_ways(gpu, switch))
    else:
        raise UnknownNameError("kind of node inside", inside.kind, ["nvswitch", "nvlink_mesh", "pcie_switch"])
    return (LinkSpec(i, j, inside.bytes_per_s, inside.latency_s, inside.kind) for i, j in pairs)


def _nic_links(
    gpus: Sequence[int], nics: Nics | None, routers: Sequence[int], first_nic: int
) -> tuple[list[LinkSpec], int]:
    """Links of one node to its router, or from each NIC to its own; and the next free vertex."""
    if nics is None or not 1 <= nics.count <= len(gpus):
        given = "none" if nics is None else nics.count
        raise UsageError(
            f"a node of {len(gpus)} GPUs needs 1 to {len(gpus)} NICs, not {given}; "
            "count several NICs of one GPU as one with their joint bandwidth"
        )
    if nics.count == len(gpus):
        pairs = [pair for index, gpu in enumerate(gpus) for pair in both_ways(gpu, routers[index % len(routers)])]
        return [LinkSpec(i, j, nics.bytes_per_s, nics.latency_s, "nic") for i, j in pairs], first_nic
    used = [first_nic + index * nics.count // len(gpus) for index in range(len(gpus))]
    # the card's latency is paid once, on its link to the router, as it is by a GPU with a card of its own
    to_card = [pair for gpu, nic in zip(gpus, used, strict=True) for pair in both_ways(gpu, nic)]
    cards = [(first_nic + index, routers[index % len(routers)]) for index in range(nics.count)]
    to_router = [pair for card, router in cards for pair in both_ways(card, router)]
    links = [LinkSpec(i, j, nics.bytes_per_s, 0.0, "nic") for i, j in to_card]
    links += [LinkSpec(i, j, nics.bytes_per_s, nics.latency_s, "nic") for i, j in to_router]
    return links, first_nic + nics.count
