"""Clusters of nodes: GPUs joined inside each node, nodes joined by a fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from simsys.errors import UnknownNameError, UsageError
from simsys.platform.fabrics import GROUPED, PORT_PER_NIC, TOPOLOGY_TYPES
from simsys.platform.link_spec import LinkSpec
from simsys.platform.node_topologies import BuiltInside, NodeInside, PcieTree, build_inside
from simsys.platform.routes import Exit, NodeRouting
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology, both_ways, check_count

__all__ = ["Fabric", "Nics", "NodeInside", "PcieTree", "nodes_on_fabric"]


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


T = TypeVar("T", NodeInside, Nics)


@dataclass(frozen=True, slots=True)
class Fabric:
    """The network between nodes.

    Args:
        kind: A name in `TOPOLOGY_TYPES`; its GPUs are the nodes' routers.
        bytes_per_s: Bandwidth of each link and direction; a link carries all the traffic of a node, so
            give count times the bandwidth of a NIC if the fabric shall not be the bottleneck. Where each NIC has a
            port of its own (`PORT_PER_NIC`), the ports share it.
        latency_s: Latency of each link.
        settings: Further arguments of the builder.
        routing: How transfers use several shortest paths; None for the kind's own.
        pxn: Whether traffic for another rail changes the rail inside its node (NCCL's PXN).
    """

    kind: str
    bytes_per_s: float
    latency_s: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    routing: Routing | None = None
    pxn: bool = False


def nodes_on_fabric(
    num_nodes: int,
    gpus_per_node: int,
    inside: NodeInside | Sequence[NodeInside] | None = None,
    nics: Nics | Sequence[Nics] | None = None,
    fabric: Fabric | None = None,
) -> Topology:
    """A cluster of nodes with equally many GPUs; GPU i of node k is vertex k·gpus_per_node + i.

    A GPU reaches its node's router over its NIC, and the fabric connects the routers. On fabrics of switches, each NIC
    has its own port with its share of the node's bandwidth, so NICs do not contend; on other fabrics a node has one
    router. Traffic between GPUs of one node stays inside the node. Nodes of one GPU have neither inside nor NICs: the
    GPU itself is on the fabric. Nodes may differ in their insides and NICs; ports without a NIC are unused.

    Args:
        num_nodes: Nodes; one node has no NICs and no fabric.
        gpus_per_node: GPUs of each node.
        inside: Inside of all nodes, or of each; required for nodes with several GPUs.
        nics: NICs of all nodes, or of each; required for several nodes with several GPUs.
        fabric: The fabric; required for several nodes.

    Raises:
        UsageError: If a number is out of range or a required part is missing.
        UnknownNameError: If `inside` or `fabric` is of an unknown kind.
    """
    check_count("num_nodes", num_nodes)
    check_count("gpus_per_node", gpus_per_node)
    insides_of, cards_of = _of_each(inside, num_nodes, "insides"), _of_each(nics, num_nodes, "sets of NICs")
    ports = 1
    if fabric is not None and fabric.kind in PORT_PER_NIC:
        ports = max([1, *(cards.count for cards in cards_of if cards is not None)])
    outside = _fabric_topology(num_nodes, fabric, 1 if gpus_per_node == 1 else ports)
    if gpus_per_node == 1:
        return outside
    graph, built = _insides(num_nodes, gpus_per_node, insides_of)
    if num_nodes == 1:
        return graph
    cards = [_check_nics(each, gpus_per_node) for each in cards_of]
    return _joined(graph, built, cards, ports, outside, pxn=bool(fabric and fabric.pxn))


def _insides(
    num_nodes: int, gpus_per_node: int, insides_of: Sequence[NodeInside | None]
) -> tuple[Topology, list[tuple[Sequence[int], BuiltInside]]]:
    """The nodes side by side without links between them, and the GPUs and the inside of each."""
    num_gpus = num_nodes * gpus_per_node
    built, links, names = list[tuple[Sequence[int], BuiltInside]](), list[LinkSpec](), list[str]()
    for node, first in enumerate(range(0, num_gpus, gpus_per_node)):
        gpus = range(first, first + gpus_per_node)
        inside = build_inside(gpus, insides_of[node], num_gpus + len(names))
        built.append((gpus, inside))
        links += inside.links
        names += [f"{name} of node {node}" for name in inside.names]
    title = f"{num_nodes} x {gpus_per_node} GPUs"
    return Topology(num_gpus, num_gpus + len(names), tuple(links), title, gpus_per_node, tuple(names)), built


def _of_each(given: T | Sequence[T] | None, num_nodes: int, what: str) -> Sequence[T | None]:
    """The hardware of each node; a single one counts for all."""
    if not isinstance(given, Sequence):
        return [given] * num_nodes
    if len(given) != num_nodes:
        raise UsageError(f"{len(given)} {what} do not fit {num_nodes} nodes")
    return given


def _joined(
    graph: Topology,
    nodes: Sequence[tuple[Sequence[int], BuiltInside]],
    nics: Sequence[Nics],
    ports: int,
    outside: Topology,
    *,
    pxn: bool,
) -> Topology:
    """The nodes of a graph with their NICs, and the fabric between these."""
    first_port, links, names = graph.num_vertices, list(graph.links), list(graph.names)
    for node in range(len(nodes)):
        names += [f"port {port} of node {node}" if ports > 1 else f"router of node {node}" for port in range(ports)]
    names += outside.names
    exits: list[Exit] = []
    for node, (gpus, inside) in enumerate(nodes):
        routers = range(first_port + node * ports, first_port + (node + 1) * ports)
        node_exits, cards = _connect(gpus, inside, nics[node], routers, graph.num_gpus + len(names), links)
        exits += node_exits
        names += [f"{card} of node {node}" for card in cards]
    first_of_fabric = len(links)
    links += [
        LinkSpec(first_port + link.src, first_port + link.dst, link.bytes_per_s, link.latency_s, link.kind)
        for link in outside.links
    ]
    return replace(
        graph,
        num_vertices=graph.num_gpus + len(names),
        links=tuple(links),
        name=f"{graph.name} on {outside.name}",
        names=tuple(names),
        routing=outside.routing,
        groups=(-1,) * first_port + outside.groups if outside.groups else (),
        nodes=NodeRouting(tuple(exits), len(graph.links), first_of_fabric, pxn),
    )


def _fabric_topology(num_nodes: int, fabric: Fabric | None, ports: int) -> Topology:
    """The fabric between the nodes' routers, `ports` of them per node, node by node."""
    if num_nodes == 1:
        return Topology(1, 1, (), "1 node")
    if fabric is None:
        raise UsageError(f"{num_nodes} nodes need a fabric between them")
    if fabric.kind not in TOPOLOGY_TYPES:
        raise UnknownNameError("fabric", fabric.kind, TOPOLOGY_TYPES)
    settings = {**fabric.settings, **({"per_node": ports} if fabric.kind in GROUPED else {})}
    build = TOPOLOGY_TYPES[fabric.kind]
    topology = build(num_nodes * ports, fabric.bytes_per_s / ports, fabric.latency_s, **settings)
    return replace(topology, routing=fabric.routing) if fabric.routing is not None else topology


def _check_nics(nics: Nics | None, gpus_per_node: int) -> Nics:
    if nics is None or not 1 <= nics.count <= gpus_per_node:
        given = "none" if nics is None else nics.count
        raise UsageError(
            f"a node of {gpus_per_node} GPUs needs 1 to {gpus_per_node} NICs, not {given}; "
            "count several NICs of one GPU as one with their joint bandwidth"
        )
    return nics


def _connect(
    gpus: Sequence[int], inside: BuiltInside, nics: Nics, routers: Sequence[int], first: int, links: list[LinkSpec]
) -> tuple[list[Exit], list[str]]:
    """Add the links from one node to its router, or from each NIC to its own; return the exits and the NICs' names.

    A NIC that belongs to one GPU is no vertex of its own. The card's latency is paid once, on its link to the router.
    """
    switches = inside.nic_switches
    shared = bool(switches) or nics.count < len(gpus)

    def cable(a: int, b: int, latency_s: float) -> tuple[int, int]:
        links.extend(LinkSpec(src, dst, nics.bytes_per_s, latency_s, "nic") for src, dst in both_ways(a, b))
        return len(links) - 2, len(links) - 1

    cards = [i * nics.count // len(gpus) for i in range(len(gpus))]  # of each GPU
    doors = [switches[card * len(switches) // nics.count] for card in cards] if switches else gpus
    legs = list(zip(doors, cards, strict=True))
    to_card = {(door, card): cable(door, first + card, 0.0) for door, card in dict.fromkeys(legs)} if shared else {}
    ports = [routers[card % len(routers)] for card in range(nics.count)]
    starts = [first + card for card in range(nics.count)] if shared else gpus
    to_port = [cable(start, port, nics.latency_s) for start, port in zip(starts, ports, strict=True)]
    exits = []
    for door, card in legs:
        way = [to_card[door, card], to_port[card]] if shared else [to_port[card]]
        exits.append(Exit(door, tuple(out for out, _ in way), ports[card], tuple(into for _, into in reversed(way))))
    return exits, [f"nic {card}" for card in range(nics.count)] if shared else []
