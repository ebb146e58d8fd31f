"""The dragonfly: groups of fully connected routers, and few global cables between the groups.

Terms and the balanced shape are from Kim et al. 2008, "Technology-driven, highly-scalable dragonfly topology": p
terminals and h global links per router, a routers per group, a = 2p = 2h, and at most a·h + 1 groups. Routing is
minimal: a route passes at most one global link, from its source's group straight to its destination's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from simsys.platform.link_spec import LinkSpec, check_link
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology, TopologyError, both_ways, check_count


@dataclass(frozen=True, slots=True)
class _Shape:
    """Terminals and global links per router, routers per group, groups."""

    terminals: int
    global_links: int
    routers: int
    groups: int


def dragonfly(
    n: int,
    bytes_per_s: float,
    latency_s: float,
    *,
    per_node: int = 1,
    nodes_per_router: int | None = None,
    routers_per_group: int | None = None,
    global_links_per_router: int | None = None,
) -> Topology:
    """`n` GPUs on routers that are joined in groups, each pair of groups by an equal number of global links.

    Args:
        n: GPUs, or ports of nodes, node by node.
        bytes_per_s: Bandwidth of every link and direction.
        latency_s: Latency of every link.
        per_node: Ports of a node, all of which hang on one router.
        nodes_per_router: Nodes on a router; by default the smallest number in the balanced shape that fits all GPUs.
        routers_per_group: Routers in a group; by default twice the ports of nodes on one.
        global_links_per_router: Global links of a router; by default its number of ports of nodes.

    Raises:
        TopologyError: The groups are more than their global links can join.
        UsageError: Another argument is out of range.
    """
    check_count("n", n)
    check_count("per_node", per_node)
    check_link(bytes_per_s, latency_s)
    shape = _shape(n, per_node, nodes_per_router, routers_per_group, global_links_per_router)
    routers = shape.groups * shape.routers
    links = [
        LinkSpec(src, dst, count * bytes_per_s, latency_s, kind)
        for low, high, count, kind in _cables(n, shape)
        for src, dst in both_ways(low, high)
    ]
    group_of = [gpu // shape.terminals // shape.routers for gpu in range(n)]
    group_of += [router // shape.routers for router in range(routers)]
    names = [f"router {router} of group {group}" for group in range(shape.groups) for router in range(shape.routers)]
    return Topology(
        n,
        n + routers,
        tuple(links),
        "dragonfly",
        names=tuple(names),
        routing=Routing("adaptive"),
        groups=tuple(group_of),
    )


def _shape(
    n: int, per_node: int, nodes_per_router: int | None, routers_per_group: int | None, global_links: int | None
) -> _Shape:
    for name, count in (
        ("nodes_per_router", nodes_per_router),
        ("routers_per_group", routers_per_group),
        ("global_links_per_router", global_links),
    ):
        if count is not None:
            check_count(name, count)

    def with_nodes(nodes: int) -> _Shape:
        terminals = nodes * per_node
        routers = routers_per_group or 2 * terminals
        groups = math.ceil(n / (terminals * routers))
        return _Shape(terminals, global_links or terminals, routers, groups)

    nodes = nodes_per_router or 1
    shape = with_nodes(nodes)
    while shape.groups > shape.routers * shape.global_links + 1:
        if nodes_per_router is not None:
            most = shape.routers * shape.global_links + 1
            text = f"{shape.groups} groups of {shape.routers} routers need more global links: theirs join {most}"
            raise TopologyError("global_links_per_router", f"{text}; give more links, routers or nodes per router")
        nodes += 1
        shape = with_nodes(nodes)
    return shape


def _cables(n: int, shape: _Shape) -> Iterator[tuple[int, int, int, str]]:
    """All cables: two vertices, the number of parallel ones, and the kind; parallel global cables come as one."""
    yield from ((gpu, n + gpu // shape.terminals, 1, "terminal") for gpu in range(n))
    for first in range(n, n + shape.groups * shape.routers, shape.routers):
        group = range(first, first + shape.routers)
        yield from ((low, high, 1, "local") for low in group for high in group if low < high)
    for (low, high), count in Counter(_global_cables(shape, n)).items():
        yield low, high, count, "global"


def _global_cables(shape: _Shape, first_router: int) -> Iterator[tuple[int, int]]:
    """The global cables, each once, as pairs of routers.

    Global port k of group i leads to group i + 1 + k mod (groups - 1), in whole rounds, up to the number of ports;
    port k belongs to router k // h.
    """
    others = shape.groups - 1
    if not others:
        return
    for group in range(shape.groups):
        for turn in range(shape.routers * shape.global_links // others):
            for offset in range(1, shape.groups):
                peer = (group + offset) % shape.groups
                if peer < group:
                    continue  # the other end has drawn it
                port, peer_port = turn * others + offset - 1, turn * others + shape.groups - offset - 1
                yield (
                    first_router + group * shape.routers + port // shape.global_links,
                    first_router + peer * shape.routers + peer_port // shape.global_links,
                )
