"""Repeating parts of pipeline schedules."""

from __future__ import annotations

import pytest

from simsys.framework import FRAMEWORKS, Schedule
from simsys.parallel.cycle import Cycle, cycle_of


@pytest.mark.parametrize(
    ("name", "stages", "micro_batches", "chunks", "length", "each"),
    [("1f1b", 4, 16, 1, 2, 1), ("interleaved", 4, 32, 3, 24, 4), ("zero_bubble", 4, 16, 1, 3, 1)],
)
def test_schedules_have_cycles(name, stages, micro_batches, chunks, length, each):
    schedule = FRAMEWORKS.get(name, Schedule)()
    for stage in range(stages):
        actions = schedule.actions(stage, stages, micro_batches, chunks)
        steps = [((kind, chunk), number) for kind, number, chunk in actions]
        found = cycle_of(steps)
        assert found is not None
        assert (found.steps, found.micro_batches) == (length, each)
        for place in range(found.start, found.end):
            (what, number), later = steps[place], steps[place + length]
            assert later == (what, number + each)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [("a", 0)],
        [("a", 0), ("b", 0)] * 8,
        [(place, place) for place in range(40)],
        [("a", str(number)) for number in range(40)],
        [("a", number) for number in range(4)],
    ],
    ids=["none", "one", "same number", "all different", "no numbers", "few"],
)
def test_sequences_without_cycles(steps):
    assert cycle_of(steps) is None


def test_the_shortest_cycle():
    steps = [(what, number) for number in range(10) for what in "abc"]
    assert cycle_of([("start", -1), *steps, ("end", 10)]) == Cycle(3, 1, 1, 28)
