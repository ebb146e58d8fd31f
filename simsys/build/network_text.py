"""The network of a cluster in one line, for the assumptions of a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import FabricProfile
from simsys.config.network import SETTINGS_OF, NetworkConfig
from simsys.platform.fabrics import PORT_PER_NIC
from simsys.platform.fat_tree import DEFAULT_RADIX
from simsys.platform.nodes import Nics
from simsys.units import Dimension, pretty


def network_text(
    hardware: HardwareConfig,
    network: NetworkConfig,
    fabric: FabricProfile,
    nics: Iterable[Nics],
    gpus_per_node: int,
    *,
    drawn_between_gpus: bool = False,
) -> str:
    """The network between nodes in one line.

    Args:
        hardware: The settings of the nodes.
        network: The settings of the network.
        fabric: The fabric.
        nics: The network cards of each kind of node, limited to the bandwidth of a port.
        gpus_per_node: GPUs of each node.
        drawn_between_gpus: Whether custom edges join GPUs, so that there are no network cards.

    Example:
        >>> from simsys.config.hardware import load_fabric
        >>> hardware = HardwareConfig(profile="dgx-h100", num_nodes=2, fabric="infiniband-ndr")
        >>> network_text(hardware, NetworkConfig(), load_fabric("infiniband-ndr"), [Nics(8, 48e9, 1.2e-6)], 8)
        'network: 8 x 48 GB/s NICs per node (1.2 us each), switch (fabric infiniband-ndr), 250 ns per link'
    """
    cards = list(dict.fromkeys(nics))
    latency_s = fabric.latency if network.base_latency is None else network.base_latency
    if network.topology_type != "custom":
        switches = ", ".join(_switches(hardware, network, fabric))
        shape = f"{network.topology_type} ({switches})" if switches else network.topology_type
        parts = [_cards(cards, gpus_per_node), shape, *_link_bandwidth(network), f"{_time(latency_s)} per link"]
        return f"network: {', '.join(parts)}"
    total = max(each.bytes_per_s * (1 if drawn_between_gpus else each.count) for each in cards)
    usual = f"{_rate(network.link_bandwidth or total)} and {_time(latency_s)} where an edge gives none"
    if drawn_between_gpus:
        return f"network: custom edges between GPUs ({usual})"
    return f"network: {_cards(cards, gpus_per_node)}, custom edges between nodes ({usual})"


def _cards(cards: Sequence[Nics], gpus_per_node: int) -> str:
    """Text of the bandwidth of each kind of node; a node of one GPU is joined to the fabric directly."""
    if gpus_per_node == 1:
        return f"{_either(_rate(each.count * each.bytes_per_s) for each in cards)} per node of one GPU"
    nics = _either(f"{each.count} x {_rate(each.bytes_per_s)}" for each in cards)
    noun = "NIC" if all(each.count == 1 for each in cards) else "NICs"
    joined = ", joined to one per GPU" if any(each.count > gpus_per_node for each in cards) else ""
    return f"{nics} {noun} per node ({_either(_time(each.latency_s) for each in cards)} each{joined})"


def _switches(hardware: HardwareConfig, network: NetworkConfig, fabric: FabricProfile) -> Iterator[str]:
    """Text of the sources of link latency and number of ports."""
    if hardware.fabric is not None:
        yield f"fabric {fabric.name}"
    elif network.base_latency is None:
        yield f"no fabric named, latency of {fabric.name}"
    if network.topology_type in SETTINGS_OF["radix"]:
        yield f"{network.radix or fabric.radix or DEFAULT_RADIX} ports per switch"


def _link_bandwidth(network: NetworkConfig) -> Iterator[str]:
    """Text of the bandwidth of links, if it is given; the ports of a node share it."""
    if network.link_bandwidth is not None:
        ports = "all ports of a node together" if network.topology_type in PORT_PER_NIC else "per link"
        yield f"{_rate(network.link_bandwidth)} {ports}"


def _either(texts: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _rate(bytes_per_s: float) -> str:
    return pretty(bytes_per_s, Dimension.BYTES_PER_SECOND)


def _time(seconds: float) -> str:
    return pretty(seconds, Dimension.SECONDS)
