"""Which of the free GPUs a job gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.jobs.placement import PLACEMENTS, packed, scattered, spread
from simsys.rng import stream

EMPTY = {node: [4 * node + gpu for gpu in range(4)] for node in range(4)}
PARTLY = {0: [1, 2, 3], 1: [6], 2: [8, 9, 10, 11], 3: [14, 15]}


@pytest.mark.parametrize(
    ("free", "count", "gpus"),
    [
        (EMPTY, 4, (0, 1, 2, 3)),
        (EMPTY, 6, (0, 1, 2, 3, 4, 5)),
        (PARTLY, 1, (6,)),
        (PARTLY, 2, (14, 15)),
        (PARTLY, 3, (1, 2, 3)),
        (PARTLY, 5, (1, 2, 3, 8, 9)),
        (PARTLY, 7, (1, 2, 3, 8, 9, 10, 11)),
    ],
)
def test_packed_takes_as_few_nodes_as_it_can_and_leaves_large_holes(
    free: dict[int, list[int]], count: int, gpus: tuple[int, ...]
) -> None:
    assert packed(free, count, stream(0, "x")) == gpus


@pytest.mark.parametrize(
    ("free", "count", "gpus"),
    [
        (EMPTY, 4, (0, 4, 8, 12)),
        (EMPTY, 6, (0, 1, 4, 5, 8, 12)),
        (PARTLY, 2, (1, 8)),
        (PARTLY, 10, (1, 2, 3, 6, 8, 9, 10, 11, 14, 15)),
    ],
)
def test_spread_deals_out_over_the_nodes(free: dict[int, list[int]], count: int, gpus: tuple[int, ...]) -> None:
    assert spread(free, count, stream(0, "x")) == gpus


def test_random_depends_on_the_seed_alone() -> None:
    first = [scattered(EMPTY, 6, stream(seed, "placement")) for seed in range(20)]
    assert first == [scattered(EMPTY, 6, stream(seed, "placement")) for seed in range(20)]
    assert len(set(first)) > 15


@given(
    st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 7), min_size=1), min_size=1),
    st.sampled_from(sorted(PLACEMENTS)),
    st.data(),
)
def test_a_job_gets_as_many_free_gpus_as_it_asks_for(
    taken: dict[int, set[int]], name: str, data: st.DataObject
) -> None:
    free = {node: [8 * node + gpu for gpu in sorted(gpus)] for node, gpus in taken.items()}
    every = {gpu for gpus in free.values() for gpu in gpus}
    count = data.draw(st.integers(1, len(every)))
    chosen = PLACEMENTS[name](free, count, stream(1, "x"))
    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= every
    assert list(chosen) == sorted(chosen)
    if name == "packed":
        sizes = sorted((len(gpus) for gpus in free.values()), reverse=True)
        fewest = next(nodes for nodes in range(1, len(sizes) + 1) if sum(sizes[:nodes]) >= count)
        assert len({gpu // 8 for gpu in chosen}) == fewest
    if name == "spread":
        assert len({gpu // 8 for gpu in chosen}) == min(count, len(free))
