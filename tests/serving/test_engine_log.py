"""What an engine notes of sequences that wait."""

from __future__ import annotations

from simsys.serving.engine_log import EngineLog
from simsys.serving.kv_cache import PagedKVCache


def test_nothing_is_kept_unless_an_observer_asks_for_it() -> None:
    log = EngineLog(PagedKVCache(10, 16))
    assert log.fresh is None
    assert log.fresh_growth is None
    log.keep()
    assert log.fresh == []


def test_a_cache_may_have_more_blocks_than_32_bits_count() -> None:
    log = EngineLog(PagedKVCache(10**10, 16))
    log.keep()
    assert log.fresh is not None
    log.fresh += [0.5, 10**10, 3]
    assert [column.tolist() for column in log.notes] == [[0.5], [10**10], [3]]


def test_sequences_that_join_a_pause_wait_from_then_on() -> None:
    log = EngineLog(PagedKVCache(10, 16))
    log.wait(1.0, 3)
    log.wait(2.0, 5)
    log.wait(3.0, 5)
    log.go_on(4.0, 5)
    assert log.pauses.tolist() == [1.0, 4.0]
    assert log.waits.tolist() == [1.0, 4.0, 3.0, 2.0, 4.0, 2.0]


def test_the_last_to_join_are_the_first_to_leave() -> None:
    log = EngineLog(PagedKVCache(10, 16))
    log.wait(1.0, 3)
    log.wait(2.0, 5)
    log.wait(3.0, 4)  # one of those that joined at 2 s has been preempted
    log.go_on(4.0, 2)  # so have the other one, and one more
    assert log.waits.tolist() == [1.0, 4.0, 2.0]


def test_a_pause_in_which_all_are_preempted_has_an_end() -> None:
    log = EngineLog(PagedKVCache(10, 16))
    log.wait(1.0, 2)
    log.go_on(2.0, 0)
    log.go_on(3.0, 7)  # no pause
    assert log.pauses.tolist() == [1.0, 2.0]
    assert not log.waits


def test_notes_move_into_columns() -> None:
    log = EngineLog(PagedKVCache(10, 16))
    log.keep()
    assert log.fresh is not None
    log.fresh += (0.5, 9, 1)
    log.fresh += (1.5, 8, 2)
    assert [column.tolist() for column in log.notes] == [[0.5, 1.5], [9, 8], [1, 2]]
    assert log.fresh == []
