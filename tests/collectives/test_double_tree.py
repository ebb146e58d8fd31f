"""Two complementary trees, pipelined: complementary they are, the data arrive, nothing collides, and it is as fast."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind, Path, bytes_sent, get_algorithm
from simsys.collectives.double_tree import DoubleTree, in_turns, two_trees
from simsys.errors import UsageError
from tests.helpers.each_case import each_case

ALL_REDUCE, BROADCAST, REDUCE = CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE
SIZES = [2, 3, 4, 5, 7, 8, 12, 13, 16, 33]
ORACLE = Path(latency_s=500e-9, bytes_per_s=50e9)


@each_case("size", [*range(2, 70), 255, 256, 257, 1000])
def test_an_inner_node_of_one_tree_is_a_leaf_of_the_other(size: int) -> None:
    first, second = two_trees(size)
    for parents in (first, second):
        assert len(parents) == size - 1
        assert max(Counter(parents.values()).values()) <= 2
        assert max(depth(parents, rank) for rank in range(size)) <= math.ceil(math.log2(size))
    children = Counter(first.values()) + Counter(second.values())
    assert max(children.values()) <= 2


def depth(parents: dict[int, int], rank: int) -> int:
    return 1 + depth(parents, parents[rank]) if rank in parents else 0


def edges(kind: CollectiveKind, size: int) -> list[tuple[int, int, int, int]]:
    """(tree, depth of the child, parent, child)."""
    if kind is ALL_REDUCE:
        trees = two_trees(size)
        return [(i, depth(tree, c), p, c) for i, tree in enumerate(trees) for c, p in tree.items()]
    found = []
    for i, tree in enumerate(two_trees(size - 1)):
        root = next(rank for rank in range(size - 1) if rank not in tree)
        found += [(i, 1, 0, root + 1), *((i, depth(tree, c) + 1, p + 1, c + 1) for c, p in tree.items())]
    return found


@pytest.mark.parametrize("kind", [ALL_REDUCE, BROADCAST, REDUCE])
@each_case("size", SIZES)
@each_case("chunks", [1, 2, 3, 8, 20])
def test_every_chunk_goes_all_the_way(kind: CollectiveKind, size: int, chunks: int) -> None:
    """A chunk is the set of ranks whose contribution it contains."""
    tree_edges = edges(kind, size)
    levels = max(level for _, level, _, _ in tree_edges)
    held = {
        (rank, tree, chunk): {rank} if kind is not BROADCAST or rank == 0 else set()
        for rank in range(size)
        for tree in (0, 1)
        for chunk in range(chunks)
    }
    steps = [phase for phase in DoubleTree(chunks).phases(kind, size) for _ in range(phase.repeat)]
    directions = {ALL_REDUCE: ["up", "down"], BROADCAST: ["down"], REDUCE: ["up"]}[kind]
    assert len(steps) == len(directions) * (levels + chunks - 1)
    for number, step in enumerate(steps):
        direction, turn = directions[number // (levels + chunks - 1)], number % (levels + chunks - 1)
        moves = []
        for tree, level, parent, child in tree_edges:
            chunk = turn - (levels - level if direction == "up" else level - 1)
            if 0 <= chunk < chunks:
                src, dst = (child, parent) if direction == "up" else (parent, child)
                moves.append((src, dst, tree, chunk, set(held[src, tree, chunk])))
        assert Counter((src, dst) for src, dst, *_ in moves) == Counter(step.transfers)
        assert step.fraction == 0.5 / chunks
        for _, dst, tree, chunk, content in moves:
            assert content, "a chunk was sent before it had arrived"
            if direction == "up":
                assert not content & held[dst, tree, chunk], "a contribution was added twice"
                held[dst, tree, chunk] |= content
            else:
                assert content >= held[dst, tree, chunk]
                held[dst, tree, chunk] = content
    everyone = {0} if kind is BROADCAST else set(range(size))
    for (rank, _, _), content in held.items():
        assert content == everyone or (kind is REDUCE and rank != 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunks", [1, 8, 64])
def test_each_rank_sends_and_receives_two_chunks_at_most_and_takes_turns(size: int, chunks: int) -> None:
    for kind in (ALL_REDUCE, BROADCAST, REDUCE):
        for phase in DoubleTree(chunks).phases(kind, size):
            for end in (0, 1):
                assert max(Counter(pair[end] for pair in phase.transfers).values()) <= 2


@given(st.integers(2, 40), st.randoms(use_true_random=False))
def test_transfers_in_turns_are_two_sets_without_a_common_end(size: int, random: object) -> None:
    pairs = []
    for _ in range(2):  # everyone sends to one other, twice
        targets = list(range(size))
        random.shuffle(targets)  # type: ignore[attr-defined]
        pairs += [(rank, target) for rank, target in enumerate(targets) if rank != target]
    ordered = in_turns(pairs)
    assert Counter(ordered) == Counter(pairs)
    split = next(
        (
            at
            for at in range(len(ordered) + 1)
            if all(
                len({pair[end] for pair in half}) == len(half)
                for half in (ordered[:at], ordered[at:])
                for end in (0, 1)
            )
        ),
        None,
    )
    assert split is not None


@each_case("size", [2, 3, 8, 13, 64, 100])
@each_case("chunks", [1, 8, 64])
@each_case("nbytes", [1.0, 1e6, 1e9])
def test_it_takes_what_sanders_et_al_say(size: int, chunks: int, nbytes: float) -> None:
    step_s = ORACLE.latency_s + nbytes / (2 * chunks) / ORACLE.bytes_per_s
    tree = DoubleTree(chunks)
    levels = math.ceil(math.log2(size))
    below = 1 + math.ceil(math.log2(size - 1))
    expected = {ALL_REDUCE: 2 * (levels + chunks - 1), BROADCAST: below + chunks - 1, REDUCE: below + chunks - 1}
    for kind, steps in expected.items():
        assert tree.seconds(kind, size, nbytes, [ORACLE]) == pytest.approx(steps * step_s, rel=1e-12)


@pytest.mark.parametrize("size", [2, 7, 64])
@pytest.mark.parametrize("chunks", [1, 8])
def test_as_many_bytes_move_as_in_one_tree(size: int, chunks: int) -> None:
    for kind in (ALL_REDUCE, BROADCAST, REDUCE):
        moved = bytes_sent(DoubleTree(chunks).phases(kind, size), 1e9)
        assert moved == pytest.approx(bytes_sent(get_algorithm("tree").phases(kind, size), 1e9), rel=1e-12)


def test_many_chunks_reach_the_full_bandwidth_in_logarithmic_time() -> None:
    half = Path(ORACLE.latency_s, ORACLE.bytes_per_s / 2)  # both of a rank's transfers take the same link
    nbytes = 1e12
    seconds = DoubleTree(10_000).seconds(BROADCAST, 1024, nbytes, [half])
    assert seconds == pytest.approx(nbytes / ORACLE.bytes_per_s, rel=2e-3)


def test_a_buffer_has_at_least_one_chunk() -> None:
    with pytest.raises(UsageError, match="at least one chunk, not 0"):
        DoubleTree(0)
