"""The paged KV cache against a cache that keeps a list of block numbers for every request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import InternalError
from simsys.serving.kv_cache import PagedKVCache, blocks_due, steps_within

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 4), st.integers(1, 40)),
        st.tuples(st.just("release"), st.integers(0, 4), st.just(0)),
    ),
    max_size=40,
)


@given(num_blocks=st.integers(1, 20), block_size=st.integers(1, 8), operations=OPERATIONS)
def test_counts_are_those_of_explicit_lists(
    num_blocks: int, block_size: int, operations: list[tuple[str, int, int]]
) -> None:
    cache = PagedKVCache(num_blocks, block_size)
    free, lists, tokens_of = list(range(num_blocks)), dict[int, list[int]](), dict[int, int]()
    peak = 0
    for name, request, tokens in operations:
        if name == "release":
            cache.release(request, tokens_of.pop(request, 0))
            free += lists.pop(request, [])
        else:
            tokens = max(tokens, tokens_of.get(request, 0))
            blocks = lists.setdefault(request, [])
            needed = (tokens + block_size - 1) // block_size - len(blocks)
            assert cache.missing_blocks(request, tokens) == needed
            fits = needed <= len(free)
            assert cache.grow(request, tokens) == fits
            if fits:
                tokens_of[request] = tokens
                blocks += [free.pop() for _ in range(needed)]
        peak = max(peak, num_blocks - len(free))
        assert cache.free_blocks == len(free)
        assert cache.usage == pytest.approx(1 - len(free) / num_blocks)
        assert cache.held == {request: len(blocks) for request, blocks in lists.items() if blocks}
    assert cache.peak_blocks == peak


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2)])
def test_blocks_for(tokens: int, blocks: int) -> None:
    assert PagedKVCache(10, 16).blocks_for(tokens) == blocks


def test_reserved_blocks_are_kept_for_decoding_sequences() -> None:
    cache = PagedKVCache(3, 4)
    cache.reserved_blocks = 2
    assert not cache.grow(0, 8)
    assert cache.grow(0, 4)
    cache.take_for_decode(2)
    assert cache.free_blocks == 0


def test_a_sequence_gives_back_what_it_took_while_decoding() -> None:
    cache = PagedKVCache(4, 4)
    assert cache.grow(7, 4)
    cache.take_for_decode(2)
    cache.release(7, 12)
    assert cache.free_blocks == 4
    assert cache.peak_blocks == 3


def test_a_growth_of_this_step_is_given_back_too() -> None:
    cache = PagedKVCache(4, 4)
    assert cache.grow(7, 12)
    cache.release(7, 4)  # only 4 tokens were computed before the step that grew it
    assert cache.free_blocks == 4


def test_taking_more_than_there_is_and_giving_back_more_are_bugs() -> None:
    cache = PagedKVCache(2, 4)
    with pytest.raises(InternalError, match="decode takes 3 KV blocks, 2 are free"):
        cache.take_for_decode(3)
    with pytest.raises(InternalError, match="more KV blocks were released than taken, at request 5"):
        cache.release(5, 4)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=16), st.integers(0, 40), st.integers(0, 60), st.integers(0, 60)
)
def test_the_steps_within_a_number_of_blocks_are_those_that_a_search_finds(
    due: list[int], step: int, blocks: int, most: int
) -> None:
    found = steps_within(due, step, blocks, most)
    assert found == max(steps for steps in range(most + 1) if blocks_due(due, step, steps) <= blocks)
