"""Routes and neighbours of the topologies of the first design."""

from __future__ import annotations

from itertools import pairwise

import pytest

from simsys.compat import TopologyManager
from simsys.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    ("kind", "neighbours", "farthest"),
    [("full_mesh", {15}, 1), ("ring", {2}, 8), ("torus_2d", {4}, 4), ("tree", {1, 2, 3}, 7)],
)
def test_supported_topologies(kind: str, neighbours: set[int], farthest: int) -> None:
    topology = TopologyManager(kind, 16)
    assert {len(others) for others in topology.adjacency.values()} == neighbours
    assert max(topology.get_hops(src, dst) for src in range(16) for dst in range(16)) == farthest


def test_a_route_follows_links_and_has_their_latency() -> None:
    topology = TopologyManager("torus_2d", 12, {"base_latency_us": 5.0})
    route = topology.get_route(0, 7)
    assert (route[0], route[-1]) == (0, 7)
    assert all(dst in topology.adjacency[src] for src, dst in pairwise(route))
    one = topology.get_latency(0, 1)
    assert one >= 5e-6
    assert topology.get_latency(0, 7) >= (len(route) - 1) * 5e-6


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="GPUs 0 to 3"):
        TopologyManager("ring", 4).get_route(0, 4)
    with pytest.raises(ConfigError, match="topology_type"):
        TopologyManager("rign", 4)
