"""The members of a group: meeting in collectives, in order, over the right links, at a price computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simsys.collectives import CollectiveKind, get_algorithm
from simsys.collectives.base import Span, Way
from simsys.collectives.choose import cheapest, named
from simsys.collectives.collective_plan import CollectivePlan
from simsys.collectives.nccl import NcclTuning
from simsys.errors import UsageError
from simsys.executors.communicator import Communicator
from simsys.ops import Collective
from simsys.parallel.layout import Group
from simsys.platform.environment import Environment
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import Topology, full_mesh, ring, single_switch
from tests.helpers.each_case import each_case
from tests.helpers.thorough import every_second
from tests.helpers.toys import BANDWIDTH, LATENCY

ALL_REDUCE, ALL_GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
MIB = 2.0**20


def communicator(
    topology: Topology, ranks: tuple[int, ...] = (), choose: Any = None, members: int | None = None
) -> Communicator:
    env = Environment()
    ranks = ranks or tuple(range(topology.num_gpus))
    network = CutThroughNetwork(env, topology)
    return Communicator(
        Group(ranks, "data"), len(ranks) if members is None else members, network, choose or named("ring"), env
    )


def part(rank: int, nbytes: float = MIB, kind: CollectiveKind = ALL_REDUCE, name: str = "gradients") -> Collective:
    return Collective(rank, kind, Group((), "data"), nbytes, name)


def test_a_collective_is_complete_when_all_have_joined_and_ready_with_the_last() -> None:
    group = communicator(full_mesh(3, BANDWIDTH, LATENCY))
    meetings = [group.meetings.join(part(rank), ready_s) for rank, ready_s in [(2, 1.0), (0, 5.0), (1, 2.0)]]
    assert meetings[0] is meetings[1] is meetings[2]
    assert meetings[0].missing == 0
    assert meetings[0].ready_s == 5.0
    assert group.meetings.waiting([0, 1]) == []


def test_only_the_members_that_run_a_process_have_to_join() -> None:
    group = communicator(full_mesh(8, BANDWIDTH, LATENCY), members=1)
    assert group.meetings.join(part(0), 0.0).missing == 0


def test_calls_meet_in_the_order_of_each_member() -> None:
    group = communicator(full_mesh(2, BANDWIDTH, LATENCY))
    first, second = group.meetings.join(part(0, 1.0, name="a"), 0.0), group.meetings.join(part(0, 2.0, name="b"), 0.0)
    assert first is not second
    assert [(meeting.op.name, absent) for meeting, absent in group.meetings.waiting([0, 1])] == [
        ("a", [1]),
        ("b", [1]),
    ]
    assert group.meetings.join(part(1, 1.0), 0.0) is first
    assert [meeting.missing for meeting in (first, second)] == [0, 1]
    assert group.meetings.join(part(1, 2.0), 0.0) is second
    assert group.meetings.waiting([0, 1]) == []


@pytest.mark.parametrize(
    "other", [part(1, 2 * MIB, name="weights"), part(1, MIB, ALL_GATHER, name="weights")], ids=["bytes", "kind"]
)
def test_different_collectives_do_not_meet(other: Collective) -> None:
    group = communicator(full_mesh(2, BANDWIDTH, LATENCY))
    group.meetings.join(part(0), 0.0)
    with pytest.raises(UsageError) as caught:
        group.meetings.join(other, 0.0)
    message = str(caught.value)
    assert "mismatched collectives: rank 1 calls" in message
    assert "'weights'" in message
    assert "rank 0 called all_reduce 'gradients' of 1048576 bytes" in message


def test_names_may_differ() -> None:
    group = communicator(full_mesh(2, BANDWIDTH, LATENCY))
    group.meetings.join(part(0, name="mine"), 0.0)
    assert group.meetings.join(part(1, name="yours"), 0.0).missing == 0


@pytest.mark.parametrize(("gpus", "nbytes", "trivial"), [(1, MIB, True), (4, 0.0, True), (4, 1.0, False)])
def test_one_rank_or_no_bytes_need_no_communication(gpus: int, nbytes: float, trivial: bool) -> None:
    group = communicator(full_mesh(gpus, BANDWIDTH, LATENCY))
    assert group.trivial(nbytes) is trivial
    assert (group.seconds(ALL_REDUCE, nbytes) == 0.0) is trivial


@pytest.mark.parametrize(
    ("topology", "ranks", "hops", "bytes_per_s"),
    [
        (ring(6, BANDWIDTH, LATENCY), (), 1, BANDWIDTH),
        (ring(6, BANDWIDTH, LATENCY), (0, 2, 4), 2, BANDWIDTH),  # neighbours of the group are two links apart
        (ring(6, BANDWIDTH, LATENCY), (0, 1), 1, BANDWIDTH),
        (single_switch(6, BANDWIDTH, LATENCY), (), 2, BANDWIDTH),
        (full_mesh(6, BANDWIDTH, LATENCY), (5, 1, 3), 1, BANDWIDTH),
        (
            nodes_on_fabric(
                2,
                2,
                NodeInside("nvswitch", 4 * BANDWIDTH, LATENCY),
                Nics(1, BANDWIDTH, LATENCY),
                Fabric("switch", BANDWIDTH, LATENCY),
            ),
            (),
            4,  # a card, into the fabric's switch and out of it, a card
            BANDWIDTH,
        ),
    ],
)
def test_a_ring_is_as_fast_as_its_slowest_pair(
    topology: Topology, ranks: tuple[int, ...], hops: int, bytes_per_s: float
) -> None:
    group = communicator(topology, ranks)
    (path,) = group.links.paths(get_algorithm("ring"), ALL_REDUCE)
    assert path.latency_s == pytest.approx(hops * LATENCY)
    assert path.bytes_per_s == bytes_per_s
    size = group.group.size
    expected = 2 * (size - 1) * (MIB / size / bytes_per_s + path.latency_s)
    assert group.seconds(ALL_REDUCE, MIB) == pytest.approx(expected)


def test_a_bad_order_shares_links_and_takes_what_its_steps_take() -> None:
    """Transfers over two links share them, while those over one link have less latency."""
    topology = ring(4, BANDWIDTH, LATENCY)
    group = communicator(topology, (0, 2, 1, 3))
    (path,) = group.links.paths(get_algorithm("ring"), ALL_REDUCE)
    assert (path.latency_s, path.bytes_per_s) == (2 * LATENCY, BANDWIDTH / 2)
    seconds = group.seconds(ALL_REDUCE, MIB)
    assert seconds == pytest.approx(played_s(group, ALL_REDUCE, MIB, topology), rel=1e-9)
    assert 6 * MIB / 4 / (BANDWIDTH / 2) < seconds < 6 * path.seconds(MIB / 4)


@pytest.mark.parametrize("name", ["ring", "tree", "direct", "halving_doubling"])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_the_steps_are_those_of_the_algorithm_on_the_groups_own_routes(name: str, size: int) -> None:
    group = communicator(full_mesh(8, BANDWIDTH, LATENCY), tuple(range(8))[::-1][:size], named(name))
    steps = group.recurring(ALL_REDUCE, MIB).schedule.steps
    members = group.group.ranks
    for step, phase in zip(steps, group.links.phases(get_algorithm(name), ALL_REDUCE), strict=True):
        assert (step.nbytes, step.repeat, step.pause_s) == (phase.fraction * MIB, phase.repeat, 0.0)
        assert [(route[0].members[0].spec.src, route[-1].members[0].spec.dst) for route in step.transfers] == [
            (members[src], members[dst]) for src, dst in phase.transfers
        ]


def test_small_messages_take_the_tree_and_large_ones_the_ring_if_the_cheapest_is_wanted() -> None:
    group = communicator(single_switch(16, BANDWIDTH, LATENCY), choose=cheapest)
    assert [group.algorithm(ALL_REDUCE, nbytes).name for nbytes in (64.0, 1e9)] == ["tree", "ring"]


@pytest.mark.parametrize("ask", [Communicator.seconds, Communicator.recurring])
def test_plans_are_made_once_for_each_kind_and_one_is_chosen_once_for_each_size(ask: Callable[..., Any]) -> None:
    made: list[CollectiveKind] = []

    def choose(kind: CollectiveKind, size: int, paths_of: Any, span: Span) -> Sequence[CollectivePlan]:
        made.append(kind)
        return named("ring")(kind, size, paths_of, span)

    group = communicator(full_mesh(4, BANDWIDTH, LATENCY), choose=choose)
    answers = [ask(group, ALL_REDUCE, nbytes) for nbytes in (1.0, 2.0, 1.0, 2.0)]
    assert made == [ALL_REDUCE]
    assert answers[0] is answers[2]
    assert answers[0] != answers[1]


# --- groups and nodes -------------------------------------------------------------------------------------------

NODES = nodes_on_fabric(
    4,
    4,
    NodeInside("nvswitch", 8 * BANDWIDTH, LATENCY),
    Nics(4, BANDWIDTH, 2 * LATENCY),
    Fabric("switch", 4 * BANDWIDTH, LATENCY),
)
"""Inside a node a GPU's link is shared by at most three of a step's transfers; eight times a card is plenty."""


@pytest.mark.parametrize(
    ("ranks", "span"),
    [
        ((0, 1, 2, 3), Span(1, 4)),
        ((1, 3), Span(1, 2)),
        (tuple(range(16)), Span(4, 4)),
        ((0, 1, 4, 5), Span(2, 2)),
        ((0, 4, 8, 12), Span(4, 1)),
        ((0, 1, 4), Span(2, 1)),
    ],
)
def test_a_group_knows_how_it_lies_on_the_nodes(ranks: tuple[int, ...], span: Span) -> None:
    seen: list[Span] = []

    def choose(kind: CollectiveKind, size: int, paths_of: Any, span: Span) -> Sequence[CollectivePlan]:
        seen.append(span)
        return cheapest(kind, size, paths_of, span)

    communicator(NODES, ranks, choose).seconds(ALL_REDUCE, MIB)
    assert seen == [span]


@pytest.mark.parametrize(
    ("name", "ranks", "way"),
    [
        ("ring", (0, 1, 2, 3), Way("ring", 0.0, 1.0)),
        ("direct", (0, 1, 2, 3), Way("ring", 0.0, 3.0)),
        ("ring", tuple(range(16)), Way("ring", 1 / 4, 1.0)),
        ("rail_ring", tuple(range(16)), Way("ring", 1 / 4, 4.0)),
        ("ring", (0, 4, 8, 12), Way("ring", 1.0, 1.0)),
        ("tree", (0, 4), Way("tree", 1.0, 1.0)),
    ],
)
def test_a_path_says_how_many_of_its_transfers_leave_their_node(name: str, ranks: tuple[int, ...], way: Way) -> None:
    group = communicator(NODES, ranks)
    algorithm = get_algorithm(name).for_nodes(4 if len(ranks) > 4 else 1)
    assert group.links.paths(algorithm, ALL_REDUCE)[0].way == way


PATTERNS = ["ring", "tree", "direct", "double_tree", "halving_doubling", "hierarchical", "ring/double_tree"]
TUNINGS = [None, NcclTuning("ampere"), NcclTuning("hopper", in_switch_reduction=True), NcclTuning("volta", "pci")]


@pytest.mark.parametrize(
    ("pattern", "tuning"),
    every_second(["auto", *PATTERNS, "rail_ring", "tree/tree", "direct/halving_doubling"], TUNINGS),
)
@each_case("ranks", [(0, 1, 2), (0, 1, 2, 3), tuple(range(16)), (0, 1, 4, 5, 12, 13), (1, 5, 9)])
def test_steps_on_idle_links_take_what_the_plan_says(
    ranks: tuple[int, ...], pattern: str, tuning: NcclTuning | None
) -> None:
    group = communicator(NODES, ranks, named(pattern, tuning))
    for kind in CollectiveKind:
        for nbytes in (4.0, 3e5, 1e9):
            assert played_s(group, kind, nbytes) == pytest.approx(group.seconds(kind, nbytes), rel=1e-9)


@pytest.mark.parametrize("pattern", ["nvls", "nvls/ring", "nvls/double_tree"])
def test_steps_through_a_switch_that_reduces_take_what_the_plan_says(pattern: str) -> None:
    choose = named(pattern, NcclTuning("hopper", in_switch_reduction=True))
    for ranks in ((0, 1, 2, 3), tuple(range(16))):
        group = communicator(NODES, ranks, choose)
        for nbytes in (4.0, 1e9):
            assert played_s(group, ALL_REDUCE, nbytes) == pytest.approx(group.seconds(ALL_REDUCE, nbytes), rel=1e-9)


def played_s(group: Communicator, kind: CollectiveKind, nbytes: float, topology: Topology = NODES) -> float:
    """Seconds that the steps take one after another, each simulated, on links of a network of their own."""
    env = Environment()
    network = CutThroughNetwork(env, topology)

    def play() -> Any:
        for step in group.recurring(kind, nbytes).schedule.steps:
            ends = [(route[0].members[0].spec.src, route[-1].members[0].spec.dst) for route in step.transfers]
            for _ in range(step.repeat):
                yield network.begin(network.prepare(ends), step.nbytes, step.pause_s)

    env.process(play())
    env.run()
    return env.now
