"""Who is next, of the jobs that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simsys.jobs.queue import Running, Waiting, backfill, fifo, priority


def job(index: int, gpus: int, *, priority: int = 0, walltime_s: float = 0.0) -> Waiting:
    return Waiting(index, gpus, float(index), priority, walltime_s)


def test_nobody_waits_for_a_queue_without_jobs() -> None:
    assert fifo([], 8, [], 0.0) is priority([], 8, [], 0.0) is backfill([], 8, [], 0.0) is None


def test_first_come_first_served_lets_nobody_overtake() -> None:
    waiting = [job(0, 8), job(1, 1)]
    assert fifo(waiting, 4, [], 0.0) is None
    assert fifo(waiting, 8, [], 0.0) == waiting[0]


def test_the_highest_priority_is_next_and_of_those_who_came_first() -> None:
    waiting = [job(0, 1), job(1, 1, priority=2), job(2, 1, priority=2)]
    assert priority(waiting, 4, [], 0.0) == waiting[1]
    assert priority([job(0, 1), job(1, 8, priority=1)], 4, [], 0.0) is None


def test_short_jobs_overtake_if_they_end_in_time() -> None:
    running = [Running(4, 100.0)]
    first = job(0, 8)
    in_time, too_long = job(1, 4, walltime_s=50.0), job(2, 4, walltime_s=51.0)
    assert backfill([first, in_time], 4, running, 50.0) == in_time
    assert backfill([first, too_long], 4, running, 50.0) is None
    assert backfill([first, too_long, in_time], 4, running, 50.0) == in_time


def test_small_jobs_overtake_if_the_first_leaves_them_room() -> None:
    running = [Running(4, 100.0), Running(8, 200.0)]
    first, small, large = job(0, 6), job(1, 2, walltime_s=1e9), job(2, 3, walltime_s=1e9)
    assert backfill([first, large, small], 4, running, 0.0) == small
    assert backfill([first, large], 4, running, 0.0) is None


@given(
    st.lists(st.builds(Running, st.integers(1, 8), st.floats(1.0, 100.0)), max_size=5),
    st.lists(st.tuples(st.integers(1, 12), st.floats(0.0, 200.0)), min_size=1, max_size=6),
    st.integers(0, 8),
)
def test_overtaking_does_not_delay_the_first(running: list[Running], jobs: list[tuple[int, float]], free: int) -> None:
    """If everybody takes as long as expected, the first starts no later than without the one that overtakes."""
    total = free + sum(one.gpus for one in running)
    waiting = [job(index, min(gpus, total), walltime_s=walltime_s) for index, (gpus, walltime_s) in enumerate(jobs)]
    chosen = backfill(waiting, free, running, 0.0)
    if chosen is None:
        assert waiting[0].gpus > free
        return
    assert chosen.gpus <= free
    if chosen is not waiting[0]:
        after = [*running, Running(chosen.gpus, chosen.walltime_s)]
        first = waiting[0].gpus
        assert starts_s(first, free - chosen.gpus, after) <= starts_s(first, free, running)


def starts_s(gpus: int, free: int, running: list[Running]) -> float:
    """When so many GPUs are free if nobody else starts."""
    now_s = 0.0
    for one in sorted(running, key=lambda each: each.end_s):
        if free >= gpus:
            break
        free, now_s = free + one.gpus, one.end_s
    return now_s
