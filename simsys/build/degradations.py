"""Links that are weak for some time: their selection, their properties over time, and the affected GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod

from simsys.config.imperfections import Degradation, LinkSelector
from simsys.errors import ConfigError, Problem, did_you_mean
from simsys.platform.link_spec import LinkSpec
from simsys.platform.timeline import Period, Timeline, timeline
from simsys.platform.topology import Topology


@dataclass(frozen=True)
class WeakLinks:
    """A network with weak links.

    Args:
        topology: The network as it is at the beginning.
        timelines: Links that change later, by index.
        places: For each GPU, a value that is equal for GPUs with equally weakened links; empty if it is equal for all.
    """

    topology: Topology
    timelines: Mapping[int, Timeline[LinkSpec]] = field(default_factory=dict)
    places: Sequence[Hashable] = ()


def weak_links(degradations: Sequence[Degradation], topology: Topology) -> WeakLinks:
    """Weaken the links of a network.

    Raises:
        ConfigError: If a degradation names links that do not exist.
    """
    if not degradations:
        return WeakLinks(topology)
    on_link: dict[int, list[int]] = {}
    for number, each in enumerate(degradations):
        for index in selected(each.links, topology, f"network.degradations[{number}].links"):
            on_link.setdefault(index, []).append(number)
    at_all_times = {
        index: _weakened(topology.links[index], [degradations[number] for number in numbers])
        for index, numbers in on_link.items()
    }
    links = list(topology.links)
    for index, weakened in at_all_times.items():
        links[index] = weakened.values[0]
    changing = {index: weakened for index, weakened in at_all_times.items() if weakened.changes_s}
    return WeakLinks(replace(topology, links=tuple(links)), changing, _places(topology, on_link))


def selected(selector: LinkSelector, topology: Topology, path: str) -> list[int]:
    """Indexes of the links that a selector selects.

    Args:
        selector: The selector.
        topology: The network.
        path: Its place in the experiment.

    Raises:
        ConfigError: If it names something that does not exist, or selects no link.
    """
    links, name = topology.links, topology.vertex_name
    kinds = list(dict.fromkeys(link.kind for link in links))
    if selector.kind is not None and selector.kind not in kinds:
        known = f"the links of this network are of kind {', '.join(kinds)}" if kinds else "this network has no links"
        raise _problem(f"{path}.kind", f"there are no links of kind {selector.kind!r}; {known}")
    for key, wanted in (("from", selector.from_), ("to", selector.to)):
        if wanted is not None:
            names = [name(vertex) for vertex in range(topology.num_vertices)]
            if wanted not in names:
                hint = did_you_mean(wanted, names) or f", such as {names[0]!r} or {names[-1]!r}"
                raise _problem(f"{path}.{key}", f"the network has no {wanted!r}{hint}")
    num_nodes = topology.num_gpus // topology.node_size
    for key, numbers, count, what in (
        ("nodes", selector.nodes, num_nodes, "node"),
        ("ids", selector.ids, len(links), "link"),
    ):
        for place, number in enumerate(numbers or ()):
            if number >= count:
                last = f"{what}s 0 to {count - 1}" if count > 1 else f"{count} {what}"
                raise _problem(f"{path}.{key}[{place}]", f"there is no {what} {number}; the network has {last}")
    found = [
        index
        for index, link in enumerate(links)
        if selector.kind in (None, link.kind)
        and selector.from_ in (None, name(link.src))
        and selector.to in (None, name(link.dst))
        and (selector.ids is None or index in selector.ids)
        and (selector.nodes is None or any(node_of(topology, end) in selector.nodes for end in (link.src, link.dst)))
    ]
    if not found:
        raise _problem(path, "no link meets all of this; each of its parts alone does")
    return found


def node_of(topology: Topology, vertex: int) -> int | None:
    """The node of a GPU, a switch inside a node, a NIC or a port; None for vertices between nodes."""
    if vertex < topology.num_gpus:
        return vertex // topology.node_size
    _, of, number = topology.vertex_name(vertex).rpartition(" of node ")
    return int(number) if of else None


def _weakened(link: LinkSpec, degradations: Sequence[Degradation]) -> Timeline[LinkSpec]:
    def at(inside: tuple[int, ...]) -> LinkSpec:
        share = prod(degradations[place].bandwidth for place in inside)
        factor = prod(degradations[place].latency_factor for place in inside)
        return replace(link, bytes_per_s=link.bytes_per_s * share, latency_s=link.latency_s * factor)

    periods = [Period(each.from_, inf if each.until is None else each.until) for each in degradations]
    return timeline(periods, at)


def _places(topology: Topology, on_link: Mapping[int, Sequence[int]]) -> Sequence[Hashable]:
    """Values that distinguish GPUs with differently weakened links.

    If all links of a kind are weakened equally, they distinguish no GPUs. Other links of nodes distinguish the GPUs of
    these nodes, and nodes with equal weak links are equal. Weak links between nodes, or where GPUs forward traffic,
    may affect any pair of GPUs.
    """
    total = Counter(link.kind for link in topology.links)
    weak = Counter((topology.links[index].kind, tuple(numbers)) for index, numbers in on_link.items())
    odd = {
        index: tuple(numbers)
        for index, numbers in on_link.items()
        if weak[topology.links[index].kind, tuple(numbers)] < total[topology.links[index].kind]
    }
    if not odd:
        return ()
    if topology.nodes is None and topology.node_size == topology.num_gpus > 1:  # one node
        first_of_fabric = len(topology.links)
    else:
        first_of_fabric = topology.nodes.fabric if topology.nodes is not None else 0
    if any(index >= first_of_fabric for index in odd):
        return range(topology.num_gpus)
    size = topology.node_size
    in_node: dict[int, list[Hashable]] = {}
    for index, numbers in odd.items():
        link = topology.links[index]
        node = node_of(topology, link.src)
        assert node is not None
        in_node.setdefault(node, []).append((*_in_its_node(topology, link), numbers))
    return [
        (tuple(in_node[gpu // size]), gpu % size) if gpu // size in in_node else None
        for gpu in range(topology.num_gpus)
    ]


def _in_its_node(topology: Topology, link: LinkSpec) -> Iterator[str]:
    """The names of a link's ends, without the number of the node."""
    for vertex in (link.src, link.dst):
        yield topology.vertex_name(vertex).rpartition(" of node ")[0]


def _problem(path: str, message: str) -> ConfigError:
    return ConfigError([Problem(message, path)])
