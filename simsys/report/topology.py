"""The network of a scenario: vertices, links, hop counts, bisection, the route between two GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from simsys.check import check_file
from simsys.platform.link_spec import LinkSpec
from simsys.platform.topology import Topology
from simsys.report.bisection import Bisection, bisection
from simsys.report.csv_table import write_csv
from simsys.report.files import write_files
from simsys.report.listing import table
from simsys.units import Dimension, pretty

MOST_STEPS = 2_000_000
"""Links followed to count hops; in a large network, the hops are a sample."""

_KINDS = ("nvswitch", "pcie switch", "host bridge", "nic", "port", "router", "leaf", "spine", "core", "switch")


@dataclass(frozen=True)
class HopCounts:
    """Hop counts between different GPUs.

    Args:
        pairs: Ordered pairs of GPUs by the number of links between them.
        sources: Number of GPUs counted from, each to all others.
    """

    pairs: Mapping[int, int]
    sources: int

    @property
    def diameter(self) -> int:
        """The largest number of hops."""
        return max(self.pairs, default=0)

    @property
    def mean(self) -> float:
        """The mean number of hops."""
        total = sum(self.pairs.values())
        return sum(hops * count for hops, count in self.pairs.items()) / total if total else 0.0


@dataclass(frozen=True)
class TopologyAnswer:
    """The network of one scenario.

    Args:
        name: The scenario.
        topology: Its vertices and links.
        network: The network between nodes as text; None for a single node.
        ends: The GPUs whose route is shown.
    """

    name: str
    topology: Topology
    ends: tuple[int, int]
    network: str | None = None

    @cached_property
    def bisection(self) -> Bisection | None:
        """The least bandwidth between two halves of its nodes."""
        return bisection(self.topology)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        topology, hops, found = self.topology, count_hops(self.topology), self.bisection
        route = [_link_row(topology, topology.links[index]) for index in topology.route(*self.ends)]
        return {
            "name": self.name,
            "topology": topology.name,
            "routing": topology.routing.kind,
            "network": self.network,
            "vertices": count_vertices(topology),
            "links": _links_by_kind(topology),
            "hops": {
                "pairs": {str(count): pairs for count, pairs in hops.pairs.items()},
                "diameter": hops.diameter,
                "mean": hops.mean,
                "from_gpus": hops.sources,
            },
            "bisection_bytes_per_s": found.bytes_per_s if found else None,
            "bisection_is_exact": found.exact if found else None,
            "route": {"src": self.ends[0], "dst": self.ends[1], "links": route},
        }

    def text(self) -> str:
        """The network as text."""
        facts = self.as_dict()
        hops, total = facts["hops"], sum(facts["hops"]["pairs"].values())
        vertices = ", ".join(f"{count:,} {kind}" for kind, count in facts["vertices"].items())
        lines = [f"{self.name}: {facts['topology']}, routing {facts['routing']}", f"  vertices: {vertices}"]
        lines += [*([f"  {self.network}"] if self.network else []), ""]
        lines += _indented(facts["links"])
        counted = hops["from_gpus"]
        of = "" if counted == self.topology.num_gpus else f", counted from {counted} GPUs spread evenly"
        lines += ["", f"  hops between GPUs: at most {hops['diameter']}, {hops['mean']:.3g} on average{of}"]
        shares = [{"hops": n, "pairs": pairs, "share": f"{pairs / total:.1%}"} for n, pairs in hops["pairs"].items()]
        lines += _indented(shares)
        if self.bisection is not None:
            lines += ["", f"  bisection bandwidth: {_bisection_text(self.bisection)}"]
        name = self.topology.vertex_name
        lines += ["", f"  route from {name(self.ends[0])} to {name(self.ends[1])}"]
        columns = {"to": "to", "kind": "kind", "bandwidth_bytes_per_s": "bytes_per_s", "latency_s": "latency_s"}
        lines += _indented([{k: row[key] for k, key in columns.items()} for row in facts["route"]["links"]])
        return "\n".join(lines)


def topology_answers(
    path: Path, assignments: Sequence[str] = (), names: Sequence[str] = (), ends: tuple[int, int] | None = None
) -> list[TopologyAnswer]:
    """The networks of the scenarios of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Which scenarios; all if empty.
        ends: The GPUs whose route is shown; by default the first and the last.

    Raises:
        ConfigError: With every problem other than memory.
        UsageError: If there is no such GPU.
    """
    answers = []
    for built in check_file(path, assignments, names, memory=False):
        cluster = built.cluster
        topology = cluster.topology
        shown = ends or (0, topology.num_gpus - 1)
        for gpu in shown:
            topology.check_gpu(gpu)
        answers.append(TopologyAnswer(built.config.name, topology, shown, cluster.network_text or None))
    return answers


def write_link_tables(answers: Sequence[TopologyAnswer], folder: Path) -> list[Path]:
    """Write ``<name>_topology.csv`` into `folder` for each network: every link with its ends, kind and figures.

    Raises:
        OutputError: If one could not be written.
    """

    def content(topology: Topology) -> Any:
        def write(file: TextIO) -> None:
            rows = [_link_row(topology, link) for link in topology.links]
            write_csv(file, rows[0] if rows else (), [list(row.values()) for row in rows])

        return write

    return write_files(folder, {f"{each.name}_topology.csv": content(each.topology) for each in answers})


def count_vertices(topology: Topology) -> dict[str, int]:
    """Number of vertices of each kind."""
    names = (topology.vertex_name(vertex) for vertex in range(topology.num_gpus, topology.num_vertices))
    first_words = (re.split(r" \d| of ", name)[0] for name in names)
    return {"gpu": topology.num_gpus} | dict(Counter(word if word in _KINDS else "switch" for word in first_words))


def count_hops(topology: Topology) -> HopCounts:
    """Count the hops between GPUs, from all of them or, in a large network, from an even sample."""
    n = topology.num_gpus
    sources = min(n, max(8, MOST_STEPS // max(1, len(topology.links))))
    pairs = Counter[int]()
    for source in range(sources):
        gpu = source * n // sources
        pairs.update(topology.hops_from(gpu).values())
        pairs[0] -= 1  # itself
    return HopCounts({hops: pairs[hops] for hops in sorted(pairs) if pairs[hops]}, sources)


def _bisection_text(found: Bisection) -> str:
    rate = pretty(found.bytes_per_s, Dimension.BYTES_PER_SECOND)
    direction = "in each direction" if found.symmetric else "in the weaker direction"
    if found.exact:
        return f"{rate} {direction}"
    return f"at most {rate} {direction} (upper bound from a search)"


def _links_by_kind(topology: Topology) -> list[dict[str, Any]]:
    """Number of links of each kind, bandwidth and latency."""
    counts = Counter((link.kind, link.bytes_per_s, link.latency_s) for link in topology.links)
    return [
        {"kind": kind, "links": count, "bandwidth_bytes_per_s": bandwidth, "latency_s": latency}
        for (kind, bandwidth, latency), count in counts.items()
    ]


def _link_row(topology: Topology, link: LinkSpec) -> dict[str, Any]:
    return {
        "src": link.src,
        "dst": link.dst,
        "from": topology.vertex_name(link.src),
        "to": topology.vertex_name(link.dst),
        "kind": link.kind,
        "bytes_per_s": link.bytes_per_s,
        "latency_s": link.latency_s,
    }


def _indented(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"    {line}" for line in table(rows).splitlines()]
