"""Dragonflies against Kim et al. 2008: counts, joined groups, minimal routes."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.platform.dragonfly import dragonfly
from simsys.platform.topology import Topology, TopologyError

BALANCED = [(1, 6), (2, 72), (3, 342)]  # h, and p·a·(a·h + 1) with p = h, a = 2h


def build(n: int, **options: int) -> Topology:
    return dragonfly(n, 50e9, 500e-9, **options)


def router_kinds(graph: Topology, src: int, dst: int) -> list[str]:
    return [graph.links[index].kind for index in graph.route(src, dst)]


@pytest.mark.parametrize(("h", "n"), BALANCED)
def test_the_largest_balanced_dragonfly_has_the_counts_of_theory(h: int, n: int) -> None:
    a, groups = 2 * h, 2 * h * h + 1
    graph = build(n)
    links = Counter(link.kind for link in graph.links)
    assert graph.num_vertices == n + a * groups
    assert links == {"terminal": 2 * n, "local": groups * a * (a - 1), "global": groups * (groups - 1)}
    degree = Counter(link.src for link in graph.links)
    assert {degree[router] for router in range(n, graph.num_vertices)} == {h + a - 1 + h}
    joined = Counter((graph.groups[link.src], graph.groups[link.dst]) for link in graph.links if link.kind == "global")
    assert set(joined.values()) == {1}, "each pair of groups has one global cable"
    assert len(joined) == groups * (groups - 1)


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (72, {}),
        (40, {}),
        (342, {}),
        (64, {"nodes_per_router": 2, "routers_per_group": 4, "global_links_per_router": 4}),
        (48, {"nodes_per_router": 3, "routers_per_group": 8}),
        (30, {"nodes_per_router": 5, "routers_per_group": 1, "global_links_per_router": 5}),
    ],
)
def test_routes_are_minimal_one_global_link_at_most(n: int, options: dict[str, int]) -> None:
    graph = build(n, **options)
    router = {link.src: link.dst for link in graph.links if link.src < n}
    out: dict[int, set[int]] = {}
    for link in graph.links:
        out.setdefault(link.src, set()).add(link.dst)
    for src in range(0, n, 11):
        hops = graph.hops_from(src)
        for dst in range(n):
            kinds = router_kinds(graph, src, dst)
            here, there = graph.groups[src], graph.groups[dst]
            assert {graph.groups[vertex] for vertex in graph.get_route(src, dst)} == {here, there}
            assert kinds.count("global") == int(here != there)
            assert kinds.count("local") <= (2 if here != there else 1)
            assert len(kinds) == hops[dst] == graph.hops(dst, src)
            if here == there:
                expected = 0 if src == dst else 2 + (router[src] != router[dst])
                assert len(kinds) == expected
            elif router[dst] in out[router[src]]:
                assert len(kinds) == 3
    assert max(hops.values()) <= 5


def test_fewer_groups_have_several_cables_between_them() -> None:
    graph = build(32, nodes_per_router=2, routers_per_group=4, global_links_per_router=2)  # 4 groups, 8 ports each
    bandwidth: Counter[tuple[int, int]] = Counter()
    for link in graph.links:
        if link.kind == "global":
            bandwidth[graph.groups[link.src], graph.groups[link.dst]] += round(link.bytes_per_s / 50e9)
    assert set(bandwidth.values()) == {2}  # 8 ports, 3 other groups: two whole rounds
    assert len(bandwidth) == 12


def test_cables_between_the_same_routers_are_one_link_of_their_bandwidth() -> None:
    graph = build(4, nodes_per_router=1, routers_per_group=2, global_links_per_router=2)
    between = [link for link in graph.links if link.kind == "global"]
    assert sorted(link.bytes_per_s for link in between) == [100e9] * 4


def test_nodes_hang_on_one_router() -> None:
    graph = build(64, per_node=8)
    router = {link.src: link.dst for link in graph.links if link.src < 64}
    assert all(router[port] == router[port // 8 * 8] for port in range(64))


def test_the_default_shape_has_room_for_all() -> None:
    for n in range(1, 400, 7):
        graph = build(n)
        assert len(graph.hops_from(n - 1)) == n


def test_groups_that_cannot_be_joined_are_refused() -> None:
    with pytest.raises(TopologyError, match="16 groups of 2 routers need more global links: theirs join 3") as caught:
        build(64, nodes_per_router=2, routers_per_group=2, global_links_per_router=1)
    assert caught.value.setting == "global_links_per_router"
