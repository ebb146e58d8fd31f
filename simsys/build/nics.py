"""The network cards of a node: as described, as simulated, and warnings about the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf

from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import FabricProfile, NodeProfile
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError, Problem
from simsys.platform.nodes import Nics
from simsys.units import Dimension, format_quantity, pretty

NIC, NETWORK_BANDWIDTH = "hardware.nic", "hardware.network_bandwidth"


def described_nics(
    hardware: HardwareConfig, node: NodeProfile | None, fabric: FabricProfile, gpus_per_node: int
) -> Nics:
    """The network cards of a node, as described by `nic`, else by the node profile, else one per GPU.

    If the scenario uses fewer GPUs than the node profile has, each GPU keeps its own NIC or NICs. `network_bandwidth`
    is the bandwidth of the whole node, over `nics_per_node` cards or a single one. Cards of a node profile have at
    most what their GPUs reach together, where data pass the memory of the host.
    """
    if hardware.network_bandwidth is not None:
        count = min(hardware.nics_per_node or 1, gpus_per_node)
        cards = node.nics if node is not None else None
        latency_s = cards.latency if cards is not None and hardware.nics_per_node else 0.0
        return Nics(count, hardware.network_bandwidth / count, latency_s)
    usual = Nics(gpus_per_node, fabric.bandwidth, fabric.latency)
    if node is not None and node.nics is not None:
        each = max(1, node.nics.count // node.gpus_per_node)
        count = min(node.nics.count, each * gpus_per_node)
        reached = (node.nics.gpu_bandwidth or inf) * gpus_per_node / count
        usual = Nics(count, min(node.nics.bandwidth, reached), node.nics.latency)
    given = hardware.nic
    if given is None:
        return usual
    latency_s = usual.latency_s if given.latency is None else given.latency
    return Nics(given.count or usual.count, given.bandwidth or usual.bytes_per_s, latency_s)


def limited_nics(described: Nics, port_bytes_per_s: float | None) -> Nics:
    """Network cards with at most the bandwidth of a port of the fabric; None if there is no such limit."""
    if port_bytes_per_s is None or described.bytes_per_s <= port_bytes_per_s:
        return described
    return replace(described, bytes_per_s=port_bytes_per_s)


def simulated_nics(nics: Nics, gpus_per_node: int) -> Nics:
    """Network cards as a platform has them, at most one per GPU.

    If there are more NICs than GPUs, every GPU has one NIC with an equal share of the total bandwidth.
    """
    if nics.count <= gpus_per_node:
        return nics
    return Nics(gpus_per_node, nics.bytes_per_s * nics.count / gpus_per_node, nics.latency_s)


def port_limit(hardware: HardwareConfig, fabric: FabricProfile) -> float | None:
    """Bandwidth (bytes/s) of a port that limits NICs: a port of a named fabric, unless a total is given; else None."""
    return fabric.bandwidth if hardware.fabric is not None and hardware.network_bandwidth is None else None


def check_nic(
    hardware: HardwareConfig, network: NetworkConfig, gpus_per_node: int, *, drawn_between_gpus: bool
) -> None:
    """Refuse `nic` if the network has no network cards, so that it would have no effect.

    Args:
        hardware: The settings of the nodes.
        network: The settings of the network.
        gpus_per_node: GPUs of each node; one GPU is joined to the fabric directly.
        drawn_between_gpus: Whether custom edges join GPUs, or nodes of one GPU.

    Raises:
        ConfigError: If a setting of `nic` would have no effect.
    """
    given = hardware.nic
    if given is None:
        return
    if drawn_between_gpus:
        message = "the edges join GPUs without network cards; give edges a bandwidth and latency, or use"
        raise ConfigError([Problem(f"{message} network.link_bandwidth and network.base_latency", NIC)])
    if gpus_per_node > 1:
        return
    direct = "a node of one GPU is joined to the fabric directly"
    if network.link_bandwidth is not None:
        message = f"{direct}, by links of network.link_bandwidth; leave out nic or link_bandwidth"
        raise ConfigError([Problem(message, NIC)])
    if given.latency is not None:
        message = f"{direct}; write network.base_latency, the latency of each link"
        raise ConfigError([Problem(message, f"{NIC}.latency")])


def nic_warnings(
    hardware: HardwareConfig,
    network: NetworkConfig,
    fabric: FabricProfile,
    described: Iterable[Nics],
    gpus_per_node: int,
) -> Iterator[Problem]:
    """Warnings about settings of network cards that may have an unintended meaning.

    Args:
        hardware: The settings of the nodes.
        network: The settings of the network.
        fabric: The fabric.
        described: The network cards of each kind of node.
        gpus_per_node: GPUs of each node.
    """
    cards = list(dict.fromkeys(described))
    if hardware.network_bandwidth is not None:
        yield Problem(_older_form(hardware, network, fabric, cards[0], gpus_per_node), NETWORK_BANDWIDTH)
    limit = port_limit(hardware, fabric)
    if limit is None or hardware.num_nodes == 1:
        return
    for nics in cards:
        if nics.bytes_per_s > limit:
            port = f"a port of {fabric.name} ({_rate(limit)})"
            message = f"a NIC of {_rate(nics.bytes_per_s)} is faster than {port}, which limits it"
            own = hardware.nic is not None and hardware.nic.bandwidth is not None
            yield Problem(message, f"{NIC}.bandwidth" if own else "hardware.fabric")


def _older_form(
    hardware: HardwareConfig, network: NetworkConfig, fabric: FabricProfile, nics: Nics, gpus_per_node: int
) -> str:
    """The warning about a bandwidth of a whole node: its interpretation, and a clearer setting."""
    assert hardware.network_bandwidth is not None
    total = format_quantity(hardware.network_bandwidth, Dimension.BYTES_PER_SECOND)
    bits = f"{hardware.network_bandwidth * 8e-9:,.6g} Gb/s"
    cards = f"{nics.count} NIC{'s' * (nics.count > 1)}"
    each = format_quantity(nics.bytes_per_s, Dimension.BYTES_PER_SECOND)
    said = f"{total} ({bits}) for the whole node over {cards}"
    if gpus_per_node > nics.count:
        said += f", shared by {gpus_per_node} GPUs"
    if hardware.num_nodes == 1:
        return f"{said}; a single node does not use it"
    if gpus_per_node == 1 and network.link_bandwidth is not None:
        return f"{said}; network.link_bandwidth replaces it"
    said += f"; write nic: {{bandwidth: {each}, count: {nics.count}}}"
    if nics.count < gpus_per_node:
        said += f", or nic: {{bandwidth: {total}, count: {gpus_per_node}}} if each GPU has a NIC of that speed"
    if hardware.fabric is not None and nics.bytes_per_s > fabric.bandwidth:
        said += f"; ports of {fabric.name} ({_rate(fabric.bandwidth)}) do not limit it"
    return said


def _rate(bytes_per_s: float) -> str:
    return pretty(bytes_per_s, Dimension.BYTES_PER_SECOND)
