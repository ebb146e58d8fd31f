"""Names of GPUs and networks in tables, as ``hardware`` of an experiment (``measured/machines.yaml``)."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, ClassVar

from pydantic import NonNegativeFloat, PositiveInt

from simsys.config.base import FrozenModel
from simsys.config.hardware import load_gpu, load_node, profile_names
from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import Facts, Pattern, facts


class Machine(FrozenModel):
    """The nodes that a GPU usually stands in.

    Args:
        gpu: The GPU's profile.
        node: The profile of the nodes; empty if there is none.
        domain: Largest number of GPUs that NVLink joins.
        joins_nodes: Whether NVLink goes beyond a node.
        fabric: The profile of the network between the nodes.
        nics_gb_per_s: Bandwidth of all network cards of the node profile.
    """

    gpu: str
    node: str = ""
    domain: PositiveInt = 8
    joins_nodes: bool = False
    fabric: str = "infiniband-hdr"
    nics_gb_per_s: NonNegativeFloat = 192.0


class NamedMachine(Machine):
    """A machine, with a pattern of the name of its GPU."""

    pattern: Pattern


class NamedNode(FrozenModel):
    """Nodes that the description of a network names; they replace the usual nodes of the GPU."""

    pattern: Pattern
    node: str
    domain: PositiveInt


class Machines(Facts):
    """Names of GPUs and networks in tables.

    Args:
        machines: Machines; the first one whose pattern is found counts.
        nodes: Nodes that descriptions of networks name.
        protocol_share: Share of a line rate that NCCL assumes to be usable.
        kernel_systems: GPU profiles by the name of the system in tables of measured kernels.
    """

    filename: ClassVar[str] = "machines.yaml"
    machines: tuple[NamedMachine, ...]
    nodes: tuple[NamedNode, ...]
    protocol_share: NonNegativeFloat
    kernel_systems: dict[str, str]


_CARDS = re.compile(r"((?:\d+\s*[xX]\s*)+)(?:[HENX]DR)?\s*(\d+)\s*[gG](B(?:/s|ps|\b))?")
"""Cards of a node and the rate of each, in Gb/s or (last group) GB/s: ``8x400G``, ``8x2x100G``, ``8x50GB/s``."""
_SHORTEST = 3
"""Length of names, such as ``p5``, that a description may have for other reasons."""
_TORUS = re.compile(r"torus\s*(\d+(?:\s*x\s*\d+)+)", re.IGNORECASE)
"""Sides of a torus of chips, such as ``ICI 3D torus 4x4x8``."""
_OF_NODE = re.compile(r"(\d+(?:\.\d+)?)\s*([GT])([bB])?(?:ps|/s)?\s*(?:/|per )\s*node")
"""The rate of all cards of a node, in bits or bytes: ``1600Gbps/node``, ``1.6 Tb/s per node``."""
_SAME_RATE = 0.05
"""Share by which a rate that is rounded, or that of what programs reach, may differ from the profile's."""
_NOT_STATED = re.compile(r"speed not", re.IGNORECASE)


def machine_of(gpu: str) -> Machine:
    """Return the machine of a GPU; for a GPU that is only a profile, nodes of its name or without a profile.

    Raises:
        Unsupported: There is no profile of the GPU.
    """
    for machine in facts(Machines).machines:
        if machine.pattern.search(gpu):
            return machine
    try:
        name = load_gpu(gpu).name
        return Machine(gpu=name, node=name if name in profile_names("node") else "")
    except UnknownNameError:
        raise Unsupported(f"no profile of GPU {gpu}") from None


def node_of(gpu: str, gpus: int) -> dict[str, Any]:
    """Return the ``hardware`` of an experiment with some GPUs of one node.

    Raises:
        Unsupported: There is no profile of the GPU, or a node has fewer GPUs.
    """
    machine = machine_of(gpu)
    if gpus > machine.domain:
        raise Unsupported(f"{gpus} GPUs, of which a node has {machine.domain}")
    return {**_profile(machine.node), "gpu": machine.gpu, "gpus_per_node": gpus}


def _profile(node: str) -> dict[str, str]:
    return {"profile": node} if node else {}


def hardware_of(gpu: str, gpus: int, nodes: int, interconnect: str) -> dict[str, Any]:
    """Return the ``hardware`` of an experiment for the number of GPUs and the description of the network of a row.

    Raises:
        Unsupported: There is no profile of the GPU, or nodes would have unequal numbers of GPUs.
    """
    machine, named = machine_of(gpu), _named_node(interconnect)
    if _TORUS.search(interconnect):
        return {"gpu": machine.gpu, "num_nodes": gpus, "gpus_per_node": 1}
    per_node = _gpus_per_node(machine, machine.domain if named is None else named.domain, gpus, nodes)
    hardware: dict[str, Any] = {
        **_profile(machine.node if named is None else named.node),
        "gpu": machine.gpu,
        "num_nodes": gpus // per_node,
        "gpus_per_node": per_node,
        "fabric": machine.fabric,
    }
    stated = _node_gb_per_s(interconnect)
    if stated is None and _NOT_STATED.search(interconnect):
        # Of the only source that does not know the speed, time grows with the traffic of a node: GPUs share a card.
        stated = machine.nics_gb_per_s / 8.0
    return hardware if machine.joins_nodes else _with_rate(hardware, stated, machine.nics_gb_per_s)


def hardware_of_instance(instance_type: str, gpus: int, nodes: int, interconnect: str = "") -> dict[str, Any]:
    """Return the ``hardware`` of an experiment for a cloud's instance type, which a node profile is named after.

    Args:
        instance_type: Its name or an alias.
        gpus: Number of GPUs.
        nodes: Number of instances; NVLink may join them to fewer nodes.
        interconnect: Description of the network; a rate in it replaces that of the profile's network cards.

    Raises:
        UnknownNameError: There is no profile of it.
        Unsupported: Nodes would have unequal numbers of GPUs.
    """
    try:
        node = load_node(instance_type)
    except UnknownNameError:
        raise UnknownNameError("instance type", instance_type, instance_types()) from None
    machine = machine_of(node.gpu)
    per_node = _gpus_per_node(machine, node.gpus_per_node, gpus, nodes)
    hardware = {"profile": node.name, "num_nodes": gpus // per_node, "gpus_per_node": per_node}
    if node.nics is None or machine.joins_nodes:
        return hardware
    return _with_rate(hardware, _node_gb_per_s(interconnect), node.nics.count * node.nics.bandwidth / 1e9)


def torus_of(gpu: str, gpus: int, interconnect: str) -> dict[str, Any]:
    """Return the ``network`` of an experiment if chips form a torus of their own links; empty if they do not.

    XLA divides a collective of TPUs among rings over all links of a chip, where a ring of ours has one link of it. So
    a link has the bandwidth of all, which is what weights and gradients move at.

    Raises:
        Unsupported: There is no profile of the GPU, or the sides do not make the number of GPUs.
    """
    stated = _TORUS.search(interconnect)
    if stated is None:
        return {}
    dims = [int(side) for side in re.findall(r"\d+", stated[1])]
    if math.prod(dims) != gpus or len(dims) not in (2, 3):
        raise Unsupported("the sides of the torus do not make the number of GPUs")
    links = load_gpu(machine_of(gpu).gpu).link
    return {
        "topology_type": f"torus_{len(dims)}d",
        "dims": dims,
        "link_bandwidth": f"{links.bandwidth / 1e9:g} GB/s",
        "base_latency": f"{links.latency:g} s",
    }


def _with_rate(hardware: dict[str, Any], stated: float | None, usual: float) -> dict[str, Any]:
    """Return the ``hardware`` with the stated bandwidth of all network cards of a node in GB/s, if it is unusual."""
    if stated is None or hardware["num_nodes"] == 1 or math.isclose(stated, usual, rel_tol=_SAME_RATE):
        return hardware
    # GPUs that send at once have their shares.
    return {**hardware, "network_bandwidth": f"{stated:g} GB/s", "nics_per_node": hardware["gpus_per_node"]}


def instance_in(description: str) -> str:
    """Return the longest instance type that stands as a word in a description; empty if there is none."""
    found = (name for name in instance_types() if len(name) > _SHORTEST and _is_word(name, description))
    return max(found, key=len, default="")


@cache
def instance_types() -> tuple[str, ...]:
    """Return the names and aliases of node profiles that name their fabric: the machines of clouds."""
    nodes = [load_node(name) for name in profile_names("node")]
    return tuple(name for node in nodes if node.fabric is not None for name in (node.name, *node.aliases))


def _is_word(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text, re.IGNORECASE) is not None


def _named_node(interconnect: str) -> NamedNode | None:
    return next((node for node in facts(Machines).nodes if node.pattern.search(interconnect)), None)


def _gpus_per_node(machine: Machine, domain: int, gpus: int, nodes: int) -> int:
    """Return the GPUs of each node: as many as possible if NVLink joins nodes, else as the number of nodes says.

    If nodes have fewer GPUs (`domain`) than that, there are more nodes.

    Raises:
        Unsupported: Nodes would have unequal numbers of GPUs.
    """
    if machine.joins_nodes:
        return max(size for size in range(1, domain + 1) if gpus % size == 0)
    if nodes * domain < gpus:
        nodes = -(-gpus // domain)
    if gpus % nodes:
        raise Unsupported(f"{gpus} GPUs do not divide evenly among {nodes} nodes")
    return gpus // nodes


def _node_gb_per_s(interconnect: str) -> float | None:
    """Return the bandwidth of all network cards of a node in GB/s, as NCCL counts it; None if it is not stated."""
    share = facts(Machines).protocol_share
    if cards := _CARDS.search(interconnect):
        count = math.prod(int(number) for number in re.findall(r"\d+", cards[1]))
        return count * int(cards[2]) * share / (1.0 if cards[3] else 8.0)
    if node := _OF_NODE.search(interconnect):
        bits = node[3] in ("b", None)
        return float(node[1]) * (1000.0 if node[2] in "Tt" else 1.0) * share / (8.0 if bits else 1.0)
    return None
