from __future__ import annotations

import pytest

from simsys.errors import UsageError
from simsys.serving.requests import RequestTable
from simsys.serving.selection import delayed, repeated, select

TABLE = RequestTable(
    [0.0, 1.0, 4.0],
    [32, 64, 33],
    [1, 2, 3],
    session=[0, 0, 1],
    turn=[0, 1, 0],
    after=[-1, 0, -1],
    hash_ids=[(0, 1), (0, 1, 5, 6), (0,)],
    hash_block_tokens=16,
    notes=("a trace",),
)
PLAIN = RequestTable([0.0, 1.0, 4.0], [32, 64, 33], [1, 2, 3])


def test_part_of_a_table() -> None:
    part = select(TABLE, [1, 2])
    assert (part.arrival_s, part.prompt_tokens, part.output_tokens) == ([1.0, 4.0], [64, 33], [2, 3])
    assert (part.session, part.turn, part.after) == ([0, 1], [1, 0], [-1, -1])  # what it waited for is gone
    assert (part.hash_ids, part.hash_block_tokens, part.notes) == ([(0, 1, 5, 6), (0,)], 16, ("a trace",))


def test_who_is_waited_for_is_found_where_it_has_gone() -> None:
    assert select(TABLE, [2, 0, 1], arrival_s=[0.0, 0.5, 0.5]).after == [-1, -1, 1]


def test_a_table_begins_again_after_its_last_mean_gap() -> None:
    assert repeated(PLAIN, count=7).arrival_s == [0.0, 1.0, 4.0, 6.0, 7.0, 10.0, 12.0]  # mean gap 2 s
    assert repeated(PLAIN, count=7).prompt_tokens == [32, 64, 33, 32, 64, 33, 32]


@pytest.mark.parametrize("count", [1, 3, 10, 3000])
def test_the_rate_of_a_repeated_table_is_that_of_one_round(count: int) -> None:
    table = repeated(PLAIN, count=3 * count)
    assert table.mean_rate_per_s == pytest.approx(PLAIN.mean_rate_per_s, rel=1e-9)


def test_each_round_has_its_own_sessions_and_blocks() -> None:
    table = repeated(TABLE, count=6)
    assert table.session == [0, 0, 1, 2, 2, 3]
    assert table.after == [-1, 0, -1, -1, 3, -1]
    first, second = table.hash_ids[:3], table.hash_ids[3:]
    assert [len(ids) for ids in second] == [len(ids) for ids in first]
    assert not {each for ids in first for each in ids} & {each for ids in second for each in ids}
    assert second[1][:2] == second[0]  # what is shared within a round stays shared


def test_whole_rounds_until_a_time() -> None:
    assert len(repeated(PLAIN, until_s=6.0)) == 3
    assert len(repeated(PLAIN, until_s=6.1)) == 6


def test_requests_at_once_can_be_repeated_only_by_number() -> None:
    burst = RequestTable([0.0, 0.0], [1, 2], [1, 1])
    assert repeated(burst, count=5).arrival_s == [0.0] * 5
    with pytest.raises(UsageError, match="repeat for ever"):
        repeated(burst, until_s=10.0)
    with pytest.raises(UsageError, match="repeat for ever"):
        repeated(PLAIN)


def test_delayed_requests_change_places() -> None:
    table = delayed(PLAIN, [4.5, 0.0, 0.0])
    assert (table.arrival_s, table.prompt_tokens) == ([1.0, 4.0, 4.5], [64, 33, 32])


def test_a_delayed_turn_does_not_overtake_the_one_before() -> None:
    table = delayed(TABLE, [4.5, 0.0, 0.0])
    assert (table.arrival_s, table.turn, table.after) == ([4.0, 4.5, 4.5], [0, 0, 1], [-1, -1, 1])
