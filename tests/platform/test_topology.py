from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import InfeasibleError, UnknownNameError, UsageError
from simsys.platform import topology
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import LinkSpec, Topology, TopologyError
from tests.helpers.each_case import each_case

BANDWIDTH, LATENCY = 50e9, 500e-9
NVSWITCH = NodeInside("nvswitch", 450e9, 1e-6)
SWITCHED = Fabric("switch", 400e9, 3e-6)


def build(kind: str, n: int) -> Topology:
    return TOPOLOGY_TYPES[kind](n, BANDWIDTH, LATENCY)


def circular_distance(a: int, b: int, n: int) -> int:
    return min((a - b) % n, (b - a) % n)


def tree_distance(a: int, b: int) -> int:
    steps = 0
    while a != b:
        a, b = max(a, b), min(a, b)
        a, steps = (a - 1) // 2, steps + 1
    return steps


def side_of_square(n: int) -> int:
    return max(side for side in range(1, n + 1) if n % side == 0 and side * side <= n)


def torus_distance(a: int, b: int, n: int) -> int:
    rows = side_of_square(n)
    columns = n // rows
    return circular_distance(a // columns, b // columns, rows) + circular_distance(a % columns, b % columns, columns)


def block_distance(a: int, b: int, n: int) -> int:
    """In three dimensions; the sizes tested have these sides."""
    cubes = {8: [2, 2, 2], 12: [2, 2, 3], 16: [2, 2, 4], 4: [1, 2, 2], 6: [1, 2, 3]}
    hops = 0
    for side in reversed(cubes.get(n, [n])):
        hops += circular_distance(a % side, b % side, side)
        a, b = a // side, b // side
    return hops


HOPS: dict[str, Callable[[int, int, int], int]] = {
    "full_mesh": lambda a, b, n: int(a != b),
    "ring": circular_distance,
    "tree": lambda a, b, n: tree_distance(a, b),
    "torus_2d": torus_distance,
    "torus_3d": block_distance,
    "switch": lambda a, b, n: 2 * int(a != b),
}


def test_every_topology_type_is_tested() -> None:
    elsewhere = {"fat_tree", "rail_optimized", "dragonfly", "custom"}
    assert TOPOLOGY_TYPES.keys() == HOPS.keys() | elsewhere


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 12, 16])
def test_hops_follow_the_formula_and_are_symmetric(kind: str, n: int) -> None:
    graph = build(kind, n)
    for src in range(n):
        for dst in range(n):
            assert graph.hops(src, dst) == HOPS[kind](src, dst, n) == graph.hops(dst, src)


@pytest.mark.parametrize("kind", HOPS)
def test_every_link_has_its_opposite_once_and_the_given_figures(kind: str) -> None:
    links = build(kind, 12).links
    ends = Counter((link.src, link.dst) for link in links)
    assert set(ends.values()) == {1}
    assert ends == Counter((link.dst, link.src) for link in links)
    assert {(link.bytes_per_s, link.latency_s, link.kind) for link in links} == {(BANDWIDTH, LATENCY, kind)}


@pytest.mark.parametrize(
    ("n", "dims", "degree"),
    [
        (27, (3, 3, 3), 6),
        (64, (4, 4, 4), 6),
        (8, (2, 2, 2), 3),
        (12, (1, 3, 4), 4),
        (24, (2, 3, 4), 5),
        (16, None, 4),
        (16, (2, 8), 3),
        (12, (3, 4), 4),
        (4, None, 2),
        (7, None, 2),
        (16, (1, 16), 2),
        (2, None, 1),
    ],
)
def test_torus_degrees(n: int, dims: tuple[int, ...] | None, degree: int) -> None:
    build_torus = topology.torus_3d if dims is not None and len(dims) == 3 else topology.torus_2d
    links = build_torus(n, BANDWIDTH, LATENCY, dims).links
    assert Counter(link.src for link in links) == dict.fromkeys(range(n), degree)


@pytest.mark.parametrize(
    ("n", "dims"),
    [(8, [2, 2, 2]), (64, [4, 4, 4]), (30, [2, 3, 5]), (16, [2, 2, 4]), (7, [1, 1, 7]), (512, [8] * 3)],
)
def test_a_torus_is_as_near_to_a_cube_as_its_size_allows(n: int, dims: list[int]) -> None:
    assert topology.torus_3d(n, BANDWIDTH, LATENCY) == topology.torus_3d(n, BANDWIDTH, LATENCY, dims)


def test_a_flat_block_is_a_2d_torus_and_routes_go_along_the_last_side_first() -> None:
    flat, block = topology.torus_2d(12, 1.0, 0.0, (3, 4)), topology.torus_3d(12, 1.0, 0.0, (1, 3, 4))
    assert [(link.src, link.dst) for link in flat.links] == [(link.src, link.dst) for link in block.links]
    assert topology.torus_3d(64, 1.0, 0.0).get_route(0, 16 + 4 + 1) == [0, 1, 5, 21]


def test_a_prime_torus_is_a_ring() -> None:
    torus, circle = build("torus_2d", 7), build("ring", 7)
    assert {(link.src, link.dst) for link in torus.links} == {(link.src, link.dst) for link in circle.links}


@pytest.mark.parametrize(("kind", "n"), [("ring", 8), ("torus_2d", 16), ("torus_2d", 12)])
def test_ties_are_broken_alike_at_every_gpu(kind: str, n: int) -> None:
    """All pairs load the links of one direction equally, as the graph looks the same from every GPU."""
    graph = build(kind, n)
    load = Counter(index for src in range(n) for dst in range(n) for index in graph.route(src, dst))
    offsets: dict[int, set[int]] = {}
    columns = n if kind == "ring" else n // side_of_square(n)
    for index, link in enumerate(graph.links):
        same_row = link.src // columns == link.dst // columns
        step = (link.dst - link.src) % columns if same_row else columns + (link.dst - link.src) % n // columns
        offsets.setdefault(step, set()).add(load[index])
    assert all(len(loads) == 1 for loads in offsets.values())


@st.composite
def random_graphs(draw: st.DrawFn) -> Topology:
    n = draw(st.integers(1, 9))
    vertex = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(vertex, vertex).filter(lambda pair: pair[0] != pair[1]), max_size=30))
    return Topology(n, n, tuple(LinkSpec(a, b, BANDWIDTH, LATENCY, "random") for a, b in pairs), "random graph")


@given(random_graphs())
def test_routes_are_shortest_paths(graph: Topology) -> None:
    reference = nx.DiGraph((link.src, link.dst) for link in graph.links)
    reference.add_nodes_from(range(graph.num_vertices))
    lengths = dict(nx.all_pairs_shortest_path_length(reference))
    for src in range(graph.num_vertices):
        for dst in range(graph.num_vertices):
            if dst not in lengths[src]:
                with pytest.raises(InfeasibleError, match=rf"vertex {src} to vertex {dst} "):
                    graph.route(src, dst)
                continue
            route = [graph.links[index] for index in graph.route(src, dst)]
            assert len(route) == lengths[src][dst]
            assert graph.get_route(src, dst) == [src, *(link.dst for link in route)]
            assert all(a.dst == b.src for a, b in pairwise(route))
            assert not route or (route[0].src, route[-1].dst) == (src, dst)


@given(random_graphs(), st.randoms())
def test_routes_do_not_depend_on_the_order_of_questions(graph: Topology, random: object) -> None:
    fresh = Topology(graph.num_gpus, graph.num_vertices, graph.links, graph.name)
    pairs = [(a, b) for a in range(graph.num_vertices) for b in range(graph.num_vertices)]
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def answers(of: Topology, asked: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, ...] | None]:
        found: dict[tuple[int, int], tuple[int, ...] | None] = {}
        for pair in asked:
            try:
                found[pair] = of.route(*pair)
            except InfeasibleError:
                found[pair] = None
        return found

    assert answers(graph, pairs) == answers(fresh, shuffled) == answers(graph, shuffled)


def test_the_first_of_parallel_links_is_used() -> None:
    twice = tuple(LinkSpec(0, 1, bandwidth, LATENCY, "cable") for bandwidth in (1e9, 2e9))
    assert Topology(2, 2, twice, "two cables").route(0, 1) == (0,)


def test_cached_routes_are_bounded_and_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_CACHED_ROUTES", 5)
    graph = build("ring", 8)
    for _ in range(2):
        assert [graph.hops(0, dst) for dst in range(8)] == [0, 1, 2, 3, 4, 3, 2, 1]
        assert len(graph._ways) <= 5


@pytest.mark.parametrize("kind", ["ring", "torus_2d", "switch"])
def test_neighbours_in_a_large_topology_are_found_without_searching_all_of_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = build(kind, 4096)
    looked_at = Counter[str]()

    class CountingDict(dict[int, int]):
        def __iter__(self) -> Iterator[int]:
            looked_at["links"] += len(self)
            return super().__iter__()

    out = graph._graph.out
    out.update({vertex: CountingDict(links) for vertex, links in out.items()})
    for gpu in range(4094):
        graph.route(gpu, gpu + 2)
    assert 4094 <= looked_at["links"] <= 64 * 4094


# --- nodes on a fabric ---


def ways(graph: Topology, src: int, dst: int) -> list[str]:
    return [graph.links[index].kind for index in graph.route(src, dst)]


@pytest.mark.parametrize("fabric", [kind for kind in TOPOLOGY_TYPES if kind != "custom"])
def test_nodes_of_one_gpu_are_the_plain_topology(fabric: str) -> None:
    cluster = nodes_on_fabric(16, 1, NVSWITCH, Nics(1, 50e9, 1e-6), Fabric(fabric, BANDWIDTH, LATENCY))
    assert cluster == build(fabric, 16)


@pytest.mark.parametrize(
    ("kind", "expected", "vertices"),
    [
        ("nvswitch", ["nvswitch"] * 2, 9),
        ("pcie_switch", ["pcie_switch"] * 2, 9),
        ("nvlink_mesh", ["nvlink_mesh"], 8),
    ],
)
def test_one_node_has_only_its_inside(kind: str, expected: list[str], vertices: int) -> None:
    node = nodes_on_fabric(1, 8, NodeInside(kind, 450e9, 1e-6))
    assert (node.num_gpus, node.num_vertices) == (8, vertices)
    assert {tuple(ways(node, a, b)) for a in range(8) for b in range(8) if a != b} == {tuple(expected)}


@pytest.mark.parametrize("inside", ["nvswitch", "nvlink_mesh", "pcie_switch"])
@pytest.mark.parametrize("nics", [1, 2, 4, 8])
def test_traffic_stays_inside_a_node_or_takes_one_nic_at_each_end(inside: str, nics: int) -> None:
    cluster = nodes_on_fabric(3, 8, NodeInside(inside, 450e9, 1e-6), Nics(nics, 50e9, 2e-6), SWITCHED)
    shared = nics < 8
    for src in range(24):
        for dst in range(24):
            way = ways(cluster, src, dst)
            if src // 8 == dst // 8:
                assert set(way) <= {inside}
            else:
                assert way == ["nic"] * (1 + shared) + ["switch"] * 2 + ["nic"] * (1 + shared)
                latency = sum(cluster.links[index].latency_s for index in cluster.route(src, dst))
                assert latency == pytest.approx(2 * 2e-6 + 2 * 3e-6, rel=1e-12)


@pytest.mark.parametrize(("gpus", "nics"), [(8, 1), (8, 2), (8, 3), (8, 8), (6, 4)])
def test_gpu_i_leaves_over_nic_i_times_count_over_gpus(gpus: int, nics: int) -> None:
    cluster = nodes_on_fabric(2, gpus, NVSWITCH, Nics(nics, 50e9, 1e-6), SWITCHED)
    last_nic_link = 0 if nics == gpus else 1
    used = [cluster.route(gpu, gpus)[last_nic_link] for gpu in range(gpus)]
    first_use = list(dict.fromkeys(used))
    assert [first_use.index(link) for link in used] == [gpu * nics // gpus for gpu in range(gpus)]


@pytest.mark.parametrize("fabric", HOPS)
def test_nodes_are_as_far_apart_as_the_fabric_says(fabric: str) -> None:
    cluster = nodes_on_fabric(6, 2, NVSWITCH, Nics(2, 50e9, 1e-6), Fabric(fabric, BANDWIDTH, LATENCY))
    routers = 6 * 2 + 1 if fabric == "switch" else 6  # a port for each NIC, and the switch
    assert cluster.num_vertices == 12 + 6 + routers
    for src in range(6):
        for dst in range(6):
            if src != dst:
                assert cluster.hops(2 * src, 2 * dst + 1) == 2 + HOPS[fabric](src, dst, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, NVSWITCH), "num_nodes must be at least 1"),
        ((1, 0, NVSWITCH), "gpus_per_node must be at least 1"),
        ((1, 8, None), "needs an inside"),
        ((2, 8, NVSWITCH, None, SWITCHED), "needs 1 to 8 NICs, not none"),
        ((2, 8, NVSWITCH, Nics(9, 50e9, 0.0), SWITCHED), "not 9; count several NICs"),
        ((2, 8, NVSWITCH, Nics(0, 50e9, 0.0), SWITCHED), "not 0"),
        ((2, 8, NVSWITCH, Nics(8, 50e9, 0.0)), "2 nodes need a fabric"),
        ((1, 8, NodeInside("nvswitch", 0.0, 1e-6)), "bandwidth must be positive"),
        ((2, 8, NVSWITCH, Nics(8, math.nan, 0.0), SWITCHED), "bandwidth must be positive"),
    ],
)
def test_bad_clusters_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nodes_on_fabric(*arguments)  # type: ignore[arg-type]


def test_unknown_kinds_of_cluster_parts_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'nvswitch'"):
        nodes_on_fabric(1, 8, NodeInside("nvswich", 450e9, 1e-6))
    with pytest.raises(UnknownNameError, match="did you mean 'torus_2d'"):
        nodes_on_fabric(2, 8, NVSWITCH, Nics(8, 50e9, 0.0), Fabric("torus2d", 50e9, 0.0))


# --- bad input ---


@pytest.mark.parametrize("kind", [kind for kind in TOPOLOGY_TYPES if kind != "custom"])
@each_case(
    ("n", "bytes_per_s", "latency_s", "message"),
    [
        (0, 1e9, 0.0, "n must be at least 1, not 0"),
        (-3, 1e9, 0.0, "n must be at least 1, not -3"),
        (1, 0.0, 0.0, "bandwidth"),
        (4, -1e9, 0.0, "bandwidth"),
        (4, math.nan, 0.0, "bandwidth"),
        (4, math.inf, 0.0, "bandwidth"),
        (1, 1e9, -1e-9, "latency"),
        (4, 1e9, math.nan, "latency"),
        (4, 1e9, math.inf, "latency"),
    ],
)
def test_bad_numbers_are_refused(kind: str, n: int, bytes_per_s: float, latency_s: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TOPOLOGY_TYPES[kind](n, bytes_per_s, latency_s)


@pytest.mark.parametrize("dims", [(3, 4), (0, 16), (-4, -4), (16, 16)])
def test_dims_that_do_not_multiply_to_n_are_refused(dims: tuple[int, int]) -> None:
    with pytest.raises(TopologyError, match=r"a torus of .* but there are 16 to fill; e.g. dims: \[4, 4\]") as caught:
        topology.torus_2d(16, BANDWIDTH, LATENCY, dims)
    assert caught.value.setting == "dims"


@pytest.mark.parametrize("dims", [(16,), (4, 4, 1), ()])
def test_a_wrong_number_of_dims_is_refused(dims: tuple[int, ...]) -> None:
    with pytest.raises(TopologyError, match="torus_2d has 2 sides"):
        topology.torus_2d(16, BANDWIDTH, LATENCY, dims)


@pytest.mark.parametrize(
    ("num_gpus", "num_vertices", "ends", "message"),
    [
        (3, 2, [], "cannot have 3 GPUs"),
        (0, 2, [], "cannot have 0 GPUs"),
        (2, 2, [(0, 2)], "vertices 0 to 1, not 2"),
        (2, 2, [(-1, 0)], "vertices 0 to 1, not -1"),
        (2, 2, [(1, 1)], "joins vertex 1 to itself"),
    ],
)
def test_bad_graphs_are_refused(num_gpus: int, num_vertices: int, ends: list[tuple[int, int]], message: str) -> None:
    links = tuple(LinkSpec(a, b, BANDWIDTH, LATENCY, "cable") for a, b in ends)
    with pytest.raises(UsageError, match=message):
        Topology(num_gpus, num_vertices, links, "bad")


@pytest.mark.parametrize("pair", [(0, 8), (-1, 0), (8, 8)])
def test_a_route_between_unknown_vertices_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="vertices 0 to 7"):
        build("ring", 8).route(*pair)
