from __future__ import annotations

import math
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import (
    ALGORITHMS,
    Algorithm,
    CollectiveKind,
    Path,
    Phase,
    bytes_sent,
    get_algorithm,
    register_algorithm,
)
from simsys.collectives.choose import cheapest
from simsys.errors import UnknownNameError, UsageError
from simsys.platform.topology import single_switch
from tests.helpers.each_case import each_case

ALL_REDUCE, ALL_GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
REDUCE_SCATTER, BROADCAST = CollectiveKind.REDUCE_SCATTER, CollectiveKind.BROADCAST
ALL_TO_ALL, SEND_RECV = CollectiveKind.ALL_TO_ALL, CollectiveKind.SEND_RECV
REDUCE, BARRIER = CollectiveKind.REDUCE, CollectiveKind.BARRIER

CASES = [(name, kind) for name in ("ring", "tree", "direct") for kind in sorted(get_algorithm(name).kinds)]
ALL_CASES = CASES + [
    (name, kind)
    for name in ("chain", "double_tree", "halving_doubling", "nvls")
    for kind in sorted(get_algorithm(name).kinds)
]
BLOCK_CASES = [case for case in CASES if case[1] not in (SEND_RECV, BARRIER)]
SIZES = [2, 3, 4, 5, 7, 8, 12, 13, 16, 33]
ORACLE = Path(latency_s=500e-9, bytes_per_s=50e9)
GIB = 2**30


def test_the_cases_cover_what_ring_and_direct_and_tree_should_do() -> None:
    assert set(CASES) == {(name, kind) for name in ("ring", "direct") for kind in CollectiveKind} | {
        ("tree", kind) for kind in (ALL_REDUCE, BROADCAST, REDUCE, BARRIER)
    }


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_can_be_named_and_chosen(kind: CollectiveKind) -> None:
    able = {name for name in ALGORITHMS.names() if kind in get_algorithm(name).kinds}
    assert {"ring", "direct"} <= able
    assert {plan.algorithm.name for plan in cheapest(kind, 8, lambda _: [ORACLE])} <= able


NAMES = sorted(set(ALGORITHMS.names()) - set(ALGORITHMS.aliases))


@pytest.mark.parametrize("name", NAMES)
def test_what_reduces_for_all_has_barriers(name: str) -> None:
    algorithm = get_algorithm(name)
    assert (BARRIER in algorithm.kinds) == (ALL_REDUCE in algorithm.kinds)


@pytest.mark.parametrize("name", [name for name in NAMES if ALL_REDUCE in get_algorithm(name).kinds])
@each_case("n", [2, 3, 8])
def test_a_barrier_is_an_all_reduce(name: str, n: int) -> None:
    algorithm = get_algorithm(name)
    assert algorithm.phases(BARRIER, n) == algorithm.phases(ALL_REDUCE, n)
    assert algorithm.seconds(BARRIER, n, 4.0, [ORACLE]) == algorithm.seconds(ALL_REDUCE, n, 4.0, [ORACLE])


# --- the data arrive: a rank's buffer is N blocks, a block is the set of ranks whose contribution it contains ---


def all_blocks(step: int, src: int, dst: int, n: int) -> list[int]:
    return list(range(n))


# which blocks a transfer carries: step and ranks -> blocks
CARRIED: dict[tuple[str, CollectiveKind], Callable[[int, int, int, int], list[int]]] = {
    ("ring", ALL_REDUCE): lambda step, src, dst, n: [(src - step - 1) % n],
    ("ring", REDUCE_SCATTER): lambda step, src, dst, n: [(src - step - 1) % n],
    ("ring", ALL_GATHER): lambda step, src, dst, n: [(src - step) % n],
    ("ring", BROADCAST): lambda step, src, dst, n: [dst] if step < n - 1 else [(src - step - 1) % n],
    ("ring", REDUCE): lambda step, src, dst, n: [(src - step - 1) % n] if step < n - 1 else [src],
    ("ring", ALL_TO_ALL): lambda step, src, dst, n: [dst],
    ("direct", ALL_REDUCE): lambda step, src, dst, n: [dst if step == 0 else src],
    ("direct", REDUCE_SCATTER): lambda step, src, dst, n: [dst],
    ("direct", ALL_GATHER): lambda step, src, dst, n: [src],
    ("direct", BROADCAST): all_blocks,
    ("direct", REDUCE): all_blocks,
    ("direct", ALL_TO_ALL): lambda step, src, dst, n: [dst],
    ("tree", ALL_REDUCE): all_blocks,
    ("tree", BROADCAST): all_blocks,
    ("tree", REDUCE): all_blocks,
}


def sums(name: str, kind: CollectiveKind, number: int, steps: int, n: int) -> bool:
    """Whether what arrives in a step is added up; else it replaces what was there."""
    if kind == REDUCE:
        return name != "ring" or number < n - 1
    return kind in (REDUCE_SCATTER, ALL_TO_ALL) or (kind == ALL_REDUCE and 2 * number < steps)


def start_buffers(kind: CollectiveKind, n: int) -> list[list[set[int]]]:
    """Block b of rank r, as the ranks whose contribution it holds."""
    if kind == ALL_GATHER:
        return [[{rank} if block == rank else set() for block in range(n)] for rank in range(n)]
    if kind == BROADCAST:
        return [[{0} if rank == 0 else set() for _ in range(n)] for rank in range(n)]
    return [[{rank} for _ in range(n)] for rank in range(n)]


def end_buffers(kind: CollectiveKind, n: int) -> list[dict[int, set[int]]]:
    """The blocks that must be there at the end, for each rank."""
    everyone = set(range(n))
    if kind in (REDUCE_SCATTER, ALL_TO_ALL):  # all-to-all: block r of every rank has been collected at rank r
        return [{rank: everyone} for rank in range(n)]
    if kind == ALL_GATHER:
        return [{block: {block} for block in range(n)} for _ in range(n)]
    if kind == REDUCE:
        return [dict.fromkeys(range(n), everyone) if rank == 0 else {} for rank in range(n)]
    return [{block: everyone if kind == ALL_REDUCE else {0} for block in range(n)} for _ in range(n)]


def steps_of(phases: tuple[Phase, ...]) -> list[Phase]:
    return [phase for phase in phases for _ in range(phase.repeat)]


@pytest.mark.parametrize(("name", "kind"), BLOCK_CASES)
@each_case("n", SIZES)
def test_every_rank_ends_with_the_data_it_should_have(name: str, kind: CollectiveKind, n: int) -> None:
    buffers = start_buffers(kind, n)
    steps = steps_of(get_algorithm(name).phases(kind, n))
    for number, step in enumerate(steps):
        summing = sums(name, kind, number, len(steps), n)
        messages = []
        for src, dst in step.transfers:
            blocks = CARRIED[name, kind](number, src, dst, n)
            assert len(blocks) == pytest.approx(step.fraction * n)
            messages += [(dst, block, set(buffers[src][block])) for block in blocks]
        for dst, block, content in messages:
            assert content, "a block was sent before it had arrived"
            if summing:
                assert not content & buffers[dst][block], "a contribution was added twice"
            else:
                assert content >= buffers[dst][block], "a block was overwritten by less than it held"
            buffers[dst][block] |= content
    for buffer, expected in zip(buffers, end_buffers(kind, n), strict=True):
        assert {block: buffer[block] for block in expected} == expected


# --- volumes ---


@pytest.mark.parametrize(
    ("name", "kind"), [case for case in BLOCK_CASES if case[0] != "tree" and case[1] not in (BROADCAST, REDUCE)]
)
@each_case("n", SIZES)
def test_block_algorithms_send_and_receive_the_least_possible_at_every_rank(
    name: str, kind: CollectiveKind, n: int
) -> None:
    sent, received = Counter[int](), Counter[int]()
    for step in steps_of(get_algorithm(name).phases(kind, n)):
        sent.update(src for src, _ in step.transfers)
        received.update(dst for _, dst in step.transfers)
        assert step.fraction == 1 / n
    blocks = (n - 1) * (2 if kind == ALL_REDUCE else 1)
    assert sent == received == dict.fromkeys(range(n), blocks)


@each_case("n", SIZES)
@pytest.mark.parametrize(
    ("name", "kind", "buffers"),
    [
        ("ring", ALL_REDUCE, lambda n: 2 * (n - 1)),
        ("ring", ALL_GATHER, lambda n: n - 1),
        ("ring", REDUCE_SCATTER, lambda n: n - 1),
        ("ring", ALL_TO_ALL, lambda n: n - 1),
        ("ring", BROADCAST, lambda n: (n - 1) / n + (n - 1)),
        ("ring", REDUCE, lambda n: (n - 1) / n + (n - 1)),
        ("ring", SEND_RECV, lambda n: n),
        ("direct", SEND_RECV, lambda n: n),
        ("direct", REDUCE, lambda n: n - 1),
        ("tree", REDUCE, lambda n: n - 1),
        ("tree", ALL_REDUCE, lambda n: 2 * (n - 1)),
        ("tree", BROADCAST, lambda n: n - 1),
        ("chain", BROADCAST, lambda n: n - 1),
        ("chain", REDUCE, lambda n: n - 1),
        ("direct", ALL_REDUCE, lambda n: 2 * (n - 1)),
        ("one_shot", ALL_REDUCE, lambda n: n * (n - 1)),
        ("direct", BROADCAST, lambda n: n - 1),
    ],
)
def test_bytes_sent_by_all_ranks(name: str, kind: CollectiveKind, buffers: Callable[[int], float], n: int) -> None:
    phases = get_algorithm(name).phases(kind, n)
    assert bytes_sent(phases, 1e6) == pytest.approx(buffers(n) * 1e6, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"), [case for case in ALL_CASES if case[0] not in ("direct", "double_tree", "one_shot")]
)
@each_case("n", SIZES)
def test_ring_and_tree_steps_do_not_collide_at_a_rank(name: str, kind: CollectiveKind, n: int) -> None:
    for phase in get_algorithm(name).phases(kind, n):
        senders, receivers = zip(*phase.transfers, strict=True)
        assert len(set(senders)) == len(senders)
        assert len(set(receivers)) == len(receivers)


@each_case("n", SIZES)
def test_direct_steps_are_ordered_so_that_ranks_take_turns_at_each_destination(n: int) -> None:
    (phase,) = get_algorithm("direct").phases(ALL_TO_ALL, n)
    for turn in range(n - 1):
        pairs = phase.transfers[turn * n : (turn + 1) * n]
        assert sorted(src for src, _ in pairs) == sorted(dst for _, dst in pairs) == list(range(n))


@pytest.mark.parametrize("name", ["ring", "direct"])
@each_case("n", SIZES)
def test_a_send_receive_goes_to_the_next_rank(name: str, n: int) -> None:
    (phase,) = get_algorithm(name).phases(SEND_RECV, n)
    assert dict(phase.transfers) == {rank: (rank + 1) % n for rank in range(n)}
    assert (phase.fraction, phase.repeat) == (1.0, 1)


def test_a_large_ring_is_one_phase() -> None:
    (phase,) = get_algorithm("ring").phases(ALL_REDUCE, 1024)
    assert (len(phase.transfers), phase.repeat) == (1024, 2046)


# --- times ---


@each_case("nbytes", [0.0, 1.0, 1e6, float(GIB)])
@each_case("n", [2, 3, 8, 16, 256])
@pytest.mark.parametrize(
    ("name", "kind", "formula"),
    [
        ("ring", ALL_REDUCE, lambda n, s: 2 * (n - 1) * (s / (n * 50e9) + 500e-9)),
        ("ring", ALL_GATHER, lambda n, s: (n - 1) * (s / (n * 50e9) + 500e-9)),
        ("ring", REDUCE_SCATTER, lambda n, s: (n - 1) * (s / (n * 50e9) + 500e-9)),
        ("ring", SEND_RECV, lambda n, s: s / 50e9 + 500e-9),
        ("direct", SEND_RECV, lambda n, s: s / 50e9 + 500e-9),
        ("direct", ALL_REDUCE, lambda n, s: 2 * (s / (n * 50e9) + 500e-9)),
        ("one_shot", ALL_REDUCE, lambda n, s: s / 50e9 + 500e-9),
        ("tree", ALL_REDUCE, lambda n, s: 2 * math.ceil(math.log2(n)) * (s / 50e9 + 500e-9)),
        ("tree", BROADCAST, lambda n, s: math.ceil(math.log2(n)) * (s / 50e9 + 500e-9)),
        ("tree", REDUCE, lambda n, s: math.ceil(math.log2(n)) * (s / 50e9 + 500e-9)),
        ("direct", REDUCE, lambda n, s: s / 50e9 + 500e-9),
        ("chain", BROADCAST, lambda n, s: s / 50e9 + (n - 1) * 500e-9),
        ("chain", REDUCE, lambda n, s: s / 50e9 + (n - 1) * 500e-9),
        ("nvls", ALL_REDUCE, lambda n, s: (1 + 1 / n) * s / 50e9 + 2 * 500e-9),
        ("nvls", ALL_GATHER, lambda n, s: s / 50e9 + 500e-9),
        ("nvls", REDUCE_SCATTER, lambda n, s: s / 50e9 + 500e-9),
    ],
)
def test_textbook_times(
    name: str, kind: CollectiveKind, formula: Callable[[int, float], float], n: int, nbytes: float
) -> None:
    assert get_algorithm(name).seconds(kind, n, nbytes, [ORACLE]) == pytest.approx(formula(n, nbytes), rel=1e-12)


def test_a_ring_of_8_through_a_switch_matches_a_fluid_network_simulation() -> None:
    graph = single_switch(8, ORACLE.bytes_per_s, ORACLE.latency_s)
    latency = sum(graph.links[index].latency_s for index in graph.route(0, 1))
    seconds = get_algorithm("ring").seconds(ALL_REDUCE, 8, GIB, [Path(latency, ORACLE.bytes_per_s)])
    assert seconds * 1e3 == pytest.approx(37.594964, abs=1e-6)  # SimGrid 3.32, 1 GiB, 50 GB/s, 500 ns per link


def test_bus_bandwidth_of_a_large_ring_all_reduce_is_the_link_bandwidth() -> None:
    """As nccl-tests defines it: S/t · 2(n-1)/n."""
    seconds = get_algorithm("ring").seconds(ALL_REDUCE, 8, 64 * GIB, [ORACLE])
    assert 64 * GIB / seconds * 2 * 7 / 8 == pytest.approx(50e9, rel=1e-5)


paths = st.builds(Path, st.floats(0.0, 1e-3, allow_subnormal=False), st.floats(1e6, 1e13))
sizes_in_bytes = st.just(0.0) | st.floats(1.0, 1e12)


@given(st.sampled_from(ALL_CASES), st.integers(1, 33), sizes_in_bytes, st.data())
def test_the_closed_form_is_the_sum_over_the_phases(
    case: tuple[str, CollectiveKind], n: int, nbytes: float, data: st.DataObject
) -> None:
    name, kind = case
    algorithm = get_algorithm(name)
    phases = algorithm.phases(kind, n)
    ways = data.draw(st.lists(paths, min_size=len(phases), max_size=len(phases)))
    added = math.fsum(p.repeat * way.seconds(p.fraction * nbytes) for p, way in zip(phases, ways, strict=True))
    assert algorithm.seconds(kind, n, nbytes, ways) == pytest.approx(added, rel=1e-12, abs=0.0)
    if ways:
        one_for_all = algorithm.seconds(kind, n, nbytes, ways[:1])
        assert one_for_all == pytest.approx(
            algorithm.seconds(kind, n, nbytes, ways[:1] * len(phases)), rel=1e-12, abs=0.0
        )


@given(st.sampled_from(ALL_CASES), st.integers(2, 100), sizes_in_bytes)
def test_no_algorithm_beats_the_latency_of_a_rounds_or_the_bandwidth_of_its_data(
    case: tuple[str, CollectiveKind], n: int, nbytes: float
) -> None:
    """Each rank sends or receives its share; log N rounds hold for algorithms in which it sends to one at a time."""
    name, kind = case
    seconds = get_algorithm(name).seconds(kind, n, nbytes, [ORACLE])
    rounds = math.ceil(math.log2(n)) if name not in ("direct", "nvls", "one_shot") and kind is not SEND_RECV else 1
    share = 1.0 if kind in (BROADCAST, REDUCE, SEND_RECV) else (n - 1) / n * (2 if kind is ALL_REDUCE else 1)
    if name == "direct":
        share /= n - 1 if kind not in (BROADCAST, REDUCE, SEND_RECV) else 1  # the path is that of one of N-1 transfers
    if name == "nvls":
        share = (n - 1) / n  # the switch adds up
    if name == "one_shot":
        share = 1.0  # the path is that of one of N-1 transfers
    if name == "double_tree":
        share /= 2  # the path is that of one of two transfers
    assert seconds >= (rounds * ORACLE.latency_s + share * nbytes / ORACLE.bytes_per_s) * (1 - 1e-12)


@given(st.sampled_from(ALL_CASES), st.integers(2, 100), sizes_in_bytes, sizes_in_bytes)
def test_more_bytes_never_take_less_time(
    case: tuple[str, CollectiveKind], n: int, some_bytes: float, other_bytes: float
) -> None:
    name, kind = case
    less, more = (
        get_algorithm(name).seconds(kind, n, nbytes, [ORACLE]) for nbytes in sorted((some_bytes, other_bytes))
    )
    assert less <= more


@pytest.mark.parametrize(("name", "kind"), ALL_CASES)
def test_a_group_of_one_does_nothing(name: str, kind: CollectiveKind) -> None:
    algorithm = get_algorithm(name)
    assert algorithm.phases(kind, 1) == ()
    assert algorithm.seconds(kind, 1, 1e9, [ORACLE]) == algorithm.seconds(kind, 1, 1e9, []) == 0.0


# --- bad input ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: get_algorithm("tree").phases(ALL_TO_ALL, 4),
            "'all_to_all'; it does: all_reduce, barrier, broadcast, ",
        ),
        (lambda: get_algorithm("tree").seconds(ALL_GATHER, 4, 1.0, [ORACLE]), "it does: all_reduce, barrier"),
        (lambda: get_algorithm("tree/send_only"), "unknown collective algorithm 'send_only'"),
        (lambda: get_algorithm("ring").phases(ALL_REDUCE, 0), "at least one rank, not 0"),
        (lambda: get_algorithm("ring").seconds(ALL_REDUCE, -1, 1.0, [ORACLE]), "at least one rank, not -1"),
        (lambda: get_algorithm("ring").seconds(ALL_REDUCE, 4, -1.0, [ORACLE]), "-1.0 bytes"),
        (lambda: get_algorithm("ring").seconds(ALL_REDUCE, 1, math.nan, [ORACLE]), "nan bytes"),
        (lambda: get_algorithm("ring").seconds(ALL_REDUCE, 4, math.inf, [ORACLE]), "inf bytes"),
        (lambda: get_algorithm("ring").seconds(ALL_REDUCE, 4, 1.0, []), "0 paths were given for 1 phases"),
        (lambda: get_algorithm("ring").seconds(ALL_TO_ALL, 9, 1.0, [ORACLE] * 9), "9 paths were given for 8 phases"),
        (lambda: Path(-1e-9, 1e9), "latency"),
        (lambda: Path(math.nan, 1e9), "latency"),
        (lambda: Path(0.0, 0.0), "bandwidth"),
        (lambda: Path(0.0, math.nan), "bandwidth"),
        (lambda: Phase(((0, 1),), 0.0), "fraction"),
        (lambda: Phase(((0, 1),), 1.5), "fraction"),
        (lambda: Phase(((0, 1),), math.nan), "fraction"),
        (lambda: Phase(((0, 1),), 0.5, repeat=0), "at least once, not 0"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


# --- lookup, and an algorithm of the user's own ---


class OwnDoubling(Algorithm):
    """All-reduce by recursive halving and doubling (Rabenseifner 2004)."""

    name = "own_doubling"
    kinds = frozenset({ALL_REDUCE})

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        if size & (size - 1):
            raise UsageError(f"halving and doubling needs a power of two, not {size}")
        distances = [size >> level for level in range(1, size.bit_length())]
        halving = tuple(
            Phase(tuple((rank, rank ^ distance) for rank in range(size)), distance / size) for distance in distances
        )
        return halving + halving[::-1]


@pytest.fixture
def own_doubling() -> Iterator[Algorithm]:
    register_algorithm(OwnDoubling)
    yield get_algorithm("own_doubling")
    ALGORITHMS.forget("own_doubling")


@pytest.mark.parametrize("n", [2, 4, 32])
def test_a_users_algorithm_needs_only_its_phases(own_doubling: Algorithm, n: int) -> None:
    steps = 2 * int(math.log2(n))
    expected = steps * 500e-9 + 2 * (n - 1) / n * 1e9 / 50e9
    assert own_doubling.seconds(ALL_REDUCE, n, 1e9, [ORACLE]) == pytest.approx(expected, rel=1e-12)
    phases = own_doubling.phases(ALL_REDUCE, n)
    assert bytes_sent(phases, 1e9) == bytes_sent(get_algorithm("ring").phases(ALL_REDUCE, n), 1e9)
    assert "own_doubling" in ALGORITHMS.names()
    with pytest.raises(UsageError, match="power of two, not 6"):
        own_doubling.phases(ALL_REDUCE, 6)


def test_a_name_is_taken_once(own_doubling: Algorithm) -> None:
    assert register_algorithm(OwnDoubling) is OwnDoubling  # the same class again, as on a reload
    other = type("Other", (OwnDoubling,), {})
    with pytest.raises(UsageError, match=r"'own_doubling' is registered twice: by .*OwnDoubling"):
        register_algorithm(other)
    assert type(own_doubling) is ALGORITHMS.get("own_doubling", Algorithm) is OwnDoubling


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ring", "ring"),
        ("ring_allreduce", "ring"),
        ("tree_allreduce", "tree"),
        ("reduce_scatter_allgather", "ring"),
        ("simsys.collectives.direct:Direct", "direct"),
    ],
)
def test_lookup_by_name_alias_and_place(name: str, found: str) -> None:
    assert get_algorithm(name).name == found


@pytest.mark.parametrize("name", ["base", "choose", "__init__", "quantum", "", "ring.py"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown collective algorithm"):
        get_algorithm(name)


def test_an_unknown_name_comes_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'direct'"):
        get_algorithm("dirct")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_package.module:Class", "no collective algorithm at"),
        ("my_algorithms:Missing", "no collective algorithm at"),
        (":Class", "no collective algorithm at"),
        ("my_algorithms:number", "not a class"),
        ("simsys.collectives.base:Algorithm", "not a complete subclass"),
        ("simsys.collectives.base:Phase", "not a complete subclass"),
    ],
)
def test_bad_places_are_refused(place: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_algorithms")
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_algorithms", module)
    with pytest.raises(UsageError, match=message):
        get_algorithm(place)
