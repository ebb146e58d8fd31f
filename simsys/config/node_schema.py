"""The schema of profiles of nodes and of the fabrics between them."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from simsys.config.base import invalid
from simsys.config.hardware_schema import Count, Host, Link, Price, Profile
from simsys.units import BytesPerSecond, NonNegativeSeconds

CollectiveKind: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"
]
"""Collectives whose costs a profile may have, as in `simsys.collectives`."""

Protocol: TypeAlias = Literal["LL", "LL128", "Simple"]
"""NCCL's protocols, as in `simsys.collectives.nccl`."""


class Interconnect(Link):
    """The interconnect of the GPUs of a node: bandwidth per GPU after protocol overhead, latency per hop.

    Args:
        kind: One switch (``nvswitch``, ``pcie_switch``), links of each pair (``nvlink_mesh``), the wiring of a DGX-1V
            (``hybrid_cube_mesh``; bandwidth of one NVLink), PCIe switches below the sockets of the host
            (``pcie_tree``; bandwidth of a GPU's PCIe link), or the memory of a host whose processor cores are the
            devices (``shared_memory``).
        gpus_per_switch: Of a ``pcie_tree``, GPUs below each switch; the node's NICs are spread over the switches.
        uplink: Of a ``pcie_tree``, each switch to its host bridge; by default as the GPUs' links.
        sockets: Of a ``pcie_tree``, sockets of the host.
        socket_link: Of a ``pcie_tree`` with several sockets, the link between each two sockets.
        collectives: Measured costs of collectives of the library in use, by kind, as latency and bandwidth of a step
            of a ring; they replace the costs of algorithms within the node where they are larger. Left out, only the
            links and NCCL's protocols count.
        in_switch_reduction: Of an ``nvswitch``, whether it can reduce the data of the GPUs in the switch (NVLink
            SHARP).
    """

    kind: Literal["nvswitch", "nvlink_mesh", "hybrid_cube_mesh", "pcie_switch", "pcie_tree", "shared_memory"]
    gpus_per_switch: Count | None = None
    uplink: Link | None = None
    sockets: Count | None = None
    socket_link: Link | None = None
    collectives: dict[CollectiveKind, Link] | None = None
    in_switch_reduction: bool | None = None

    @model_validator(mode="after")
    def _tree_is_whole(self) -> Self:
        given = [name for name in ("gpus_per_switch", "uplink", "sockets", "socket_link") if getattr(self, name)]
        if self.kind != "pcie_tree" and given:
            raise invalid(f"{given[0]} belongs to kind: pcie_tree, not to {self.kind}")
        if self.kind == "pcie_tree" and self.gpus_per_switch is None:
            raise invalid("a pcie_tree needs gpus_per_switch")
        if self.in_switch_reduction and self.kind != "nvswitch":
            raise invalid(f"in_switch_reduction belongs to kind: nvswitch, not to {self.kind}")
        if (self.sockets or 1) > 1 and self.socket_link is None:
            raise invalid("several sockets need a socket_link, e.g. {bandwidth: 20 GB/s, latency: 500 ns}")
        return self


class Nics(Link):
    """The equal network cards of a node: bandwidth of each, latency from GPU memory to the wire.

    Args:
        count: Number of cards.
        gpu_bandwidth: What each GPU reaches through the memory of the host, where cards cannot read or write its own
            memory (GPUDirect RDMA). Left out, the card alone limits it.
    """

    count: Count
    gpu_bandwidth: BytesPerSecond | None = None


class NodeProfile(Profile):
    """One machine: its GPUs, their interconnect, its network cards, and the host that the GPUs share.

    Args:
        gpu: The profile of its GPUs.
        gpus_per_node: Number of GPUs.
        interconnect: What joins them.
        nics: Its network cards; left out, for one machine alone.
        fabric: Name of the fabric between such machines, unless the experiment names one.
        host: Processors and memory of the host.
        shared_memory_bandwidth: Bandwidth of the memory that all devices together reach, if they share one: each has
            at most its part. Left out, every device has a memory of its own.
        price: Rent of the machine.
    """

    gpu: str
    gpus_per_node: Count
    interconnect: Interconnect
    nics: Nics | None = None
    fabric: str | None = None
    host: Host | None = None
    shared_memory_bandwidth: BytesPerSecond | None = None
    price: Price | None = None


class FabricProfile(Profile):
    """A network between nodes.

    Args:
        kind: Its family of standards.
        bandwidth: Line rate of one port.
        latency: Of one switch.
        radix: Ports of a switch.
        nccl_protocols: NCCL's protocols that its transport allows between nodes; left out, all.
        in_network_reduction: Whether its switches reduce data of the nodes (SHARP), which an operator has to enable.
    """

    kind: Literal["infiniband", "ethernet"]
    bandwidth: BytesPerSecond
    latency: NonNegativeSeconds
    radix: Count | None = None
    nccl_protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)] | None = None
    in_network_reduction: bool | None = None
