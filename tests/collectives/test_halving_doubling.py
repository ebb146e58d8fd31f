"""Recursive halving and doubling: the data arrive for any number of ranks, in as few steps and bytes as it says."""

from __future__ import annotations

import math

import pytest

from simsys.collectives import CollectiveKind, Path, bytes_sent, get_algorithm

ALL_REDUCE, ALL_GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
REDUCE_SCATTER = CollectiveKind.REDUCE_SCATTER
SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 31, 32, 33]
ORACLE = Path(latency_s=500e-9, bytes_per_s=50e9)


@pytest.mark.parametrize("size", SIZES)
def test_everything_is_gathered_if_ranks_send_the_first_blocks_they_have_in_order(size: int) -> None:
    """Blocks in the order in which a rank came by them: its own, then its partners'."""
    blocks = [[rank] for rank in range(size)]
    for phase in get_algorithm("halving_doubling").phases(ALL_GATHER, size):
        count = round(phase.fraction * size)
        assert sorted(src for src, _ in phase.transfers) == sorted(dst for _, dst in phase.transfers)
        sent = {dst: blocks[src][:count] for src, dst in phase.transfers}
        for dst, new in sent.items():
            assert len(new) == count
            assert not set(new) & set(blocks[dst]), "a block was sent to a rank that has it"
            blocks[dst] = blocks[dst] + new
    assert all(sorted(held) == list(range(size)) for held in blocks)


@pytest.mark.parametrize("size", SIZES)
def test_a_reduce_scatter_is_an_all_gather_backwards(size: int) -> None:
    """So every block gathers the contributions of all, each once, as its copies spread to all in the other."""
    algorithm = get_algorithm("halving_doubling")
    gather, scatter = algorithm.phases(ALL_GATHER, size), algorithm.phases(REDUCE_SCATTER, size)
    assert [phase.fraction for phase in scatter] == [phase.fraction for phase in gather[::-1]]
    assert [{(dst, src) for src, dst in phase.transfers} for phase in scatter] == [
        set(phase.transfers) for phase in gather[::-1]
    ]


@pytest.mark.parametrize("size", SIZES)
def test_ranks_beyond_a_power_of_two_hand_over_first_and_receive_last(size: int) -> None:
    phases = get_algorithm("halving_doubling").phases(ALL_REDUCE, size)
    core = 1 << int(math.log2(size))
    assert len(phases) == 2 * int(math.log2(size)) + (2 if core < size else 0)
    if core < size:
        first, *inner, last = phases
        assert first.fraction == last.fraction == 1.0
        assert [(dst, src) for src, dst in first.transfers] == list(last.transfers)
        idle = {src for src, _ in first.transfers}
        assert len(idle) == size - core
        phases = tuple(inner)
        assert not idle & {rank for phase in phases for pair in phase.transfers for rank in pair}
    reached = {rank: {rank} for phase in phases for pair in phase.transfers for rank in pair}
    for phase in phases[: len(phases) // 2]:
        before = {rank: set(known) for rank, known in reached.items()}
        for src, dst in phase.transfers:
            reached[dst] |= before[src]
    assert len(reached) == core
    assert all(known == set(reached) for known in reached.values())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nbytes", [1.0, 1e6, 1e9])
def test_it_takes_what_rabenseifner_says(size: int, nbytes: float) -> None:
    algorithm = get_algorithm("halving_doubling")
    core, rounds = 1 << int(math.log2(size)), math.ceil(math.log2(size))
    latency_s, bytes_per_s = ORACLE.latency_s, ORACLE.bytes_per_s
    scattered_s = rounds * latency_s + (size - 1) / size * nbytes / bytes_per_s
    reduced_s = 2 * (int(math.log2(size)) * latency_s + (core - 1) / core * nbytes / bytes_per_s)
    if core < size:
        reduced_s += 2 * (latency_s + nbytes / bytes_per_s)
    for kind, expected in ((REDUCE_SCATTER, scattered_s), (ALL_GATHER, scattered_s), (ALL_REDUCE, reduced_s)):
        assert algorithm.seconds(kind, size, nbytes, [ORACLE]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8, 64])
def test_powers_of_two_move_no_more_than_a_ring(size: int) -> None:
    for kind in (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER):
        moved = bytes_sent(get_algorithm("halving_doubling").phases(kind, size), 1e9)
        assert moved == pytest.approx(bytes_sent(get_algorithm("ring").phases(kind, size), 1e9), rel=1e-12)
