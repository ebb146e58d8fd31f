"""Networks inside a node: a switch, a full mesh, the cube mesh of a DGX-1, or a tree of PCIe switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from simsys.errors import UnknownNameError, UsageError
from simsys.platform.link_spec import LinkSpec
from simsys.platform.topology import both_ways, check_count


@dataclass(frozen=True, slots=True)
class PcieTree:
    """The shape of a tree of PCIe switches: sockets of the host, switches below each, GPUs below these.

    Args:
        gpus_per_switch: GPUs below each switch; NICs are spread over the switches evenly.
        uplink_bytes_per_s: Bandwidth of each switch to the host bridge of its socket, and direction.
        uplink_latency_s: Latency of that link.
        sockets: Sockets, each with an equal share of the switches.
        socket_bytes_per_s: Bandwidth between each two sockets (UPI, Infinity Fabric) and direction.
        socket_latency_s: Latency of that link.
    """

    gpus_per_switch: int
    uplink_bytes_per_s: float
    uplink_latency_s: float
    sockets: int = 1
    socket_bytes_per_s: float = 0.0
    socket_latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeInside:
    """The kind of network inside a node.

    Args:
        kind: ``nvswitch``, ``pcie_switch`` or ``shared_memory`` (one link from each GPU to a switch),
            ``nvlink_mesh`` (one link for each pair of GPUs), ``hybrid_cube_mesh`` (the NVLinks of a DGX-1V) or
            ``pcie_tree``.
        bytes_per_s: Bandwidth of each link and direction; of one NVLink of the cube, and of a GPU's PCIe link.
        latency_s: Latency of each link; a path through a switch has two.
        tree: The shape of a ``pcie_tree``.
    """

    kind: str
    bytes_per_s: float
    latency_s: float
    tree: PcieTree | None = None


@dataclass(frozen=True, slots=True)
class BuiltInside:
    """The network inside one node.

    Args:
        links: Its links.
        names: Names of its vertices other than GPUs.
        nic_switches: The PCIe switches of NICs; without them, a NIC is connected to its GPUs.
    """

    links: Sequence[LinkSpec]
    names: Sequence[str] = ()
    nic_switches: Sequence[int] = ()


DGX1_NVLINKS: Mapping[tuple[int, int], int] = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    (0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip
"""NVLinks between each two GPUs of a DGX-1V, by its ``nvidia-smi topo -m``: six per GPU."""


def build_inside(gpus: Sequence[int], inside: NodeInside | None, first: int) -> BuiltInside:
    """The links between the GPUs of a node.

    Args:
        gpus: Their vertices.
        inside: The interconnect of the GPUs.
        first: The next free vertex.

    Raises:
        UsageError: There is no inside, or it does not fit the number of GPUs.
        UnknownNameError: It is of an unknown kind.
    """
    if inside is None:
        raise UsageError(f"a node of {len(gpus)} GPUs needs an inside that joins them")
    if inside.kind not in INSIDE_KINDS:
        raise UnknownNameError("kind of node inside", inside.kind, INSIDE_KINDS)
    return INSIDE_KINDS[inside.kind](gpus, inside, first)


def _switch(gpus: Sequence[int], inside: NodeInside, first: int) -> BuiltInside:
    """Each GPU with a link to one switch."""
    links = [link for gpu in gpus for link in _cable(gpu, first, inside)]
    return BuiltInside(links, [inside.kind.replace("_", " ")])


def _mesh(gpus: Sequence[int], inside: NodeInside, first: int) -> BuiltInside:
    """A link from each GPU to each other."""
    pairs = [(src, dst) for src in gpus for dst in gpus if src != dst]
    return BuiltInside([LinkSpec(src, dst, inside.bytes_per_s, inside.latency_s, inside.kind) for src, dst in pairs])


def _hybrid_cube_mesh(gpus: Sequence[int], inside: NodeInside, first: int) -> BuiltInside:
    """The first GPUs of a DGX-1V; between GPUs without a link of their own, one in between forwards (NCCL's NVB)."""
    if len(gpus) > 8:
        raise UsageError(f"a hybrid cube mesh joins up to 8 GPUs, not {len(gpus)}")
    cables = [(a, b, DGX1_NVLINKS[a, b]) for a, b in combinations(range(len(gpus)), 2) if (a, b) in DGX1_NVLINKS]
    links = [link for a, b, count in cables for link in _cable(gpus[a], gpus[b], inside, inside.bytes_per_s * count)]
    return BuiltInside(links)


def _pcie_tree(gpus: Sequence[int], inside: NodeInside, first: int) -> BuiltInside:
    """GPUs below PCIe switches, these below the host bridges of their sockets, and the sockets joined in pairs."""
    tree = inside.tree
    if tree is None:
        raise UsageError("an inside of kind pcie_tree needs its shape (tree)")
    check_count("gpus_per_switch", tree.gpus_per_switch)
    check_count("sockets", tree.sockets)
    num_switches = -(-len(gpus) // tree.gpus_per_switch)
    switches = range(first, first + num_switches)
    bridges = range(switches.stop, switches.stop + min(tree.sockets, num_switches))
    links = [link for i, gpu in enumerate(gpus) for link in _cable(gpu, switches[i // tree.gpus_per_switch], inside)]
    uplink = NodeInside("host_bridge", tree.uplink_bytes_per_s, tree.uplink_latency_s)
    for i, switch in enumerate(switches):
        links += _cable(switch, bridges[i * len(bridges) // num_switches], uplink)
    between = NodeInside("socket", tree.socket_bytes_per_s, tree.socket_latency_s)
    links += [link for a, b in combinations(bridges, 2) for link in _cable(a, b, between)]
    names = [f"pcie switch {i}" for i in range(num_switches)] + [f"host bridge {i}" for i in range(len(bridges))]
    return BuiltInside(links, names, switches)


def _cable(a: int, b: int, of: NodeInside, bytes_per_s: float | None = None) -> Iterator[LinkSpec]:
    bandwidth = of.bytes_per_s if bytes_per_s is None else bytes_per_s
    return (LinkSpec(src, dst, bandwidth, of.latency_s, of.kind) for src, dst in both_ways(a, b))


INSIDE_KINDS: Mapping[str, Callable[[Sequence[int], NodeInside, int], BuiltInside]] = {
    "nvswitch": _switch,
    "nvlink_mesh": _mesh,
    "hybrid_cube_mesh": _hybrid_cube_mesh,
    "pcie_switch": _switch,
    "pcie_tree": _pcie_tree,
    "shared_memory": _switch,
}
"""How to build each kind of inside."""
