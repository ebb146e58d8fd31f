"""The event history of a run: starts and ends that match, in order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from simsys.executors import LEVELS
from simsys.metrics.history import EventHistory, EventType, HistoryEvent
from simsys.parallel.layout import Layout
from simsys.rank import Rank
from tests.helpers.toys import simulate, work_of

LAYOUT = Layout(data=2, pipeline=2)
E = EventType


def program(rank: Rank) -> Iterator[Any]:
    for _ in range(3):
        rank.mark("iteration_start")
        rank.mark("forward")
        yield rank.compute(work_of(0.25), name="forward")
        buckets = [rank.all_reduce(1e9, over="data", name=f"bucket {k}") for k in range(2)]
        yield rank.compute(work_of(0.01), name="backward")
        if rank.index < 2:
            yield rank.send(rank.index + 2, 1e8, name="activations")
        else:
            yield rank.recv(rank.index - 2)
        yield rank.wait(buckets)
        yield rank.all_gather(1e6, over="data", name="weights")
        rank.mark("iteration_end")


def history(level: str) -> list[HistoryEvent]:
    probe = EventHistory()
    simulate(level, program, LAYOUT, probes=[probe])
    return probe.event_history


@pytest.mark.parametrize("level", LEVELS)
def test_events_are_in_order_of_time(level: str) -> None:
    times = [event.timestamp for event in history(level)]
    assert times == sorted(times)
    assert times[0] == 0.0


@pytest.mark.parametrize("level", LEVELS)
def test_every_start_has_its_end(level: str) -> None:
    running: dict[tuple[int, str], list[str]] = defaultdict(list)
    for event in history(level):
        what, edge = event.event_type.rsplit("_", 1)
        name = "" if what == "ITERATION" else event.name
        if edge == "START":
            assert what not in running[event.node_id, name]  # nothing starts twice
            running[event.node_id, name].append(what)
        else:
            running[event.node_id, name].remove(what)  # a ValueError if it had not started
    assert not any(running.values())


@pytest.mark.parametrize(("level", "ranks", "meetings"), [("high", 4, 2), ("medium", 2, 2)])
def test_each_operation_is_in_it_once(level: str, ranks: int, meetings: int) -> None:
    counts: dict[EventType, int] = defaultdict(int)
    for event in history(level):
        counts[event.event_type] += 1
    senders = ranks // 2
    assert counts == {
        E.COMPUTE_START: 6 * ranks,
        E.COMPUTE_END: 6 * ranks,
        E.ALLREDUCE_START: 6 * meetings,
        E.ALLREDUCE_END: 6 * meetings,
        E.COMM_START: 3 * senders + 3 * meetings,  # messages and all-gathers
        E.COMM_END: 3 * senders + 3 * meetings,
        E.ITERATION_START: 3 * ranks,
        E.ITERATION_END: 3 * ranks,
    }


def test_both_levels_tell_the_same_story_of_the_ranks_they_share() -> None:
    def of_rank_0(level: str) -> dict[tuple[EventType, str], Any]:
        times = defaultdict(list)
        for event in history(level):
            if event.node_id == 0:
                times[event.event_type, event.name].append(event.timestamp)
        return {key: pytest.approx(value, rel=1e-9) for key, value in times.items()}

    high, medium = of_rank_0("high"), of_rank_0("medium")
    assert high.keys() == medium.keys()
    assert all(high[key].expected == medium[key] for key in high)


def test_a_history_is_empty_before_a_run_and_ignores_other_phases() -> None:
    probe = EventHistory()
    assert probe.event_history == []
    probe.mark(0, "backward", 1.0)
    assert probe.event_history == []


@pytest.mark.parametrize("level", LEVELS)
def test_work_of_the_host_is_communication(level: str) -> None:
    def copies(rank: Rank) -> Iterator[Any]:
        yield rank.from_host(1e6, name="weights")

    probe = EventHistory()
    simulate(level, copies, Layout(), probes=[probe])
    assert [event.event_type for event in probe.event_history] == [E.COMM_START, E.COMM_END]
