"""Fat trees of equal switches: leaves, spines and, where these have too few ports, cores.

A leaf has downlinks to GPUs or NICs and uplinks to every spine of its pod; how much more bandwidth comes in from below
than goes out above is its oversubscription. With `radix` ports per switch and no oversubscription, two levels join
radix²/2 ports and three radix³/4 (Al-Fares et al. 2008, "A scalable, commodity data center network architecture").
Which spines a transfer between leaves passes is the routing's choice; by default it is spread over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from simsys.platform.link_spec import LinkSpec, check_link
from simsys.platform.routing import Routing
from simsys.platform.topology import Topology, TopologyError, both_ways, check_count

DEFAULT_RADIX = 64
"""Ports of a current switch, such as NVIDIA's QM9700."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Counts of a fat tree; `spines` are per pod, each with equal uplinks and downlinks if there are cores."""

    leaf_size: int
    leaves: int
    spines: int
    pods: int
    pod_size: int

    @property
    def cores(self) -> int:
        return self.spines * self.pod_size if self.pods > 1 else 0


def fat_tree(
    n: int,
    bytes_per_s: float,
    latency_s: float,
    *,
    per_node: int = 1,
    leaf_size: int | None = None,
    oversubscription: float = 1.0,
    radix: int = DEFAULT_RADIX,
) -> Topology:
    """`n` GPUs below leaf switches, these below spines, and those below cores if two levels are not enough.

    Args:
        n: GPUs, or ports of nodes, node by node.
        bytes_per_s: Bandwidth of a port and direction. Uplinks of leaves have it, too, up to rounding of their
            number: together they have exactly the downlinks' bandwidth over `oversubscription`.
        latency_s: Latency of each link, including its target switch.
        per_node: Ports of a node, all on one leaf.
        leaf_size: Nodes per leaf; by default the most that leave ports for the uplinks.
        oversubscription: Bandwidth of a leaf's downlinks over that of its uplinks.
        radix: Ports of a switch. A spine with several links to a leaf is split into several spines.

    Raises:
        TopologyError: If there are too many ports for three levels, or on a leaf.
        UsageError: If another argument is out of range.
    """
    return _clos("fat_tree", n, bytes_per_s, latency_s, per_node, leaf_size, oversubscription, radix, rails=1)


def rail_optimized(
    n: int,
    bytes_per_s: float,
    latency_s: float,
    *,
    per_node: int = 1,
    leaf_size: int | None = None,
    oversubscription: float = 1.0,
    radix: int = DEFAULT_RADIX,
) -> Topology:
    """A fat tree with rails as leaves: port i of each node is on leaf i of its unit.

    A unit is `leaf_size` nodes and `per_node` leaves; spines connect rails and units. Whether traffic for
    another rail passes a spine or first changes the rail inside its node is the cluster's choice
    (`simsys.platform.routes.NodeRouting`).

    Arguments and errors as `fat_tree`.
    """
    return _clos("rail_optimized", n, bytes_per_s, latency_s, per_node, leaf_size, oversubscription, radix, per_node)


def _clos(
    name: Literal["fat_tree", "rail_optimized"],
    n: int,
    bytes_per_s: float,
    latency_s: float,
    per_node: int,
    leaf_size: int | None,
    oversubscription: float,
    radix: int,
    rails: int,
) -> Topology:
    check_count("n", n)
    check_count("per_node", per_node)
    check_link(bytes_per_s, latency_s)
    shape = _shape(math.ceil(n / per_node), per_node // rails, rails, leaf_size, oversubscription, radix)
    down = shape.leaf_size * per_node // rails
    uplink = bytes_per_s * down / (oversubscription * shape.spines) if shape.spines else bytes_per_s

    def leaf(port: int) -> int:
        node, place = divmod(port, per_node)
        return n + node // shape.leaf_size * rails + place % rails

    first_spine = n + shape.leaves
    first_core = first_spine + shape.pods * shape.spines
    cables = [(port, leaf(port), bytes_per_s, "leaf") for port in range(n)]
    cables += [(low, high, uplink, "spine") for low, high in _leaf_to_spine(shape, n, first_spine)]
    cables += [(low, high, uplink, "core") for low, high in _spine_to_core(shape, first_spine, first_core)]
    links = [
        LinkSpec(src, dst, bandwidth, latency_s, kind)
        for low, high, bandwidth, kind in cables
        for src, dst in both_ways(low, high)
    ]
    names = tuple(_names(shape, rails))
    return Topology(n, n + len(names), tuple(links), name, names=names, routing=Routing("adaptive"))


def _shape(
    nodes: int, per_leaf: int, rails: int, leaf_size: int | None, oversubscription: float, radix: int
) -> _Shape:
    """Number of switches, with `per_leaf` ports of a node on each of `rails` leaves."""
    if not 0.0 < oversubscription < math.inf:
        raise TopologyError("oversubscription", f"oversubscription must be positive, not {oversubscription!r}")
    check_count("radix", radix)
    if leaf_size is None:
        most = max(1, math.floor(radix * oversubscription / (1.0 + oversubscription)) // per_leaf)
        leaf_size = math.ceil(nodes / math.ceil(nodes / most))  # as even as their number allows
    check_count("leaf_size", leaf_size)
    leaves = math.ceil(nodes / leaf_size) * rails
    down = leaf_size * per_leaf
    spines = math.ceil(down / oversubscription) if leaves > 1 else 0
    if down + spines > radix:
        text = f"a leaf of {leaf_size} nodes needs {down} ports down and {spines} up, but a switch has {radix} (radix)"
        raise TopologyError("leaf_size", f"{text}; give a smaller leaf_size or a larger radix")
    if leaves <= radix:
        return _Shape(leaf_size, leaves, spines, 1, leaves)
    pod_size = max(1, radix // 2)
    pods = math.ceil(leaves / pod_size)
    if pods > radix:
        text = f"{leaves} leaves are too many for three levels of switches with {radix} ports: at most"
        raise TopologyError("radix", f"{text} {pod_size * radix}; give a larger radix")
    return _Shape(leaf_size, leaves, spines, pods, pod_size)


def _leaf_to_spine(shape: _Shape, first_leaf: int, first_spine: int) -> Iterator[tuple[int, int]]:
    """Each leaf to every spine of its pod."""
    for leaf in range(shape.leaves):
        spines = first_spine + leaf // shape.pod_size * shape.spines
        for spine in range(spines, spines + shape.spines):
            yield first_leaf + leaf, spine


def _spine_to_core(shape: _Shape, first_spine: int, first_core: int) -> Iterator[tuple[int, int]]:
    """Spine i of each pod to the cores of plane i."""
    for spine in range(shape.pods * shape.spines if shape.cores else 0):
        plane = first_core + spine % shape.spines * shape.pod_size
        for core in range(plane, plane + shape.pod_size):
            yield first_spine + spine, core


def _names(shape: _Shape, rails: int) -> Sequence[str]:
    where = [f" of rail {leaf % rails}" if rails > 1 else "" for leaf in range(shape.leaves)]
    leaves = [f"leaf {leaf // rails}{rail}" for leaf, rail in enumerate(where)]
    pods = [f" of pod {pod}" if shape.pods > 1 else "" for pod in range(shape.pods)]
    spines = [f"spine {spine}{pod}" for pod in pods for spine in range(shape.spines)]
    return [*leaves, *spines, *(f"core {core}" for core in range(shape.cores))]
