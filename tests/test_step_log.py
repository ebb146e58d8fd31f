"""What a loop keeps of its runs of steps: told, and noted with the cache, whether it is few or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from simsys.executors.base import Executor
from simsys.executors.steps import step_log
from simsys.executors.steps.step_log import NO_NOTE, StepLog, stretches
from simsys.executors.steps.step_times import StepTimes
from simsys.probes import Probe, Probes
from simsys.serving.kv_cache import PagedKVCache


class Told(Probe):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.runs: list[float] = []

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        self.runs += runs


class Silent:
    """Of an executor, what a log knows."""

    def __init__(self, probe: Probe) -> None:
        self.probes, self.at_result = Probes([probe]), cast("Callable[..., Any]", lambda tell: None)


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("watched", [True, False])
def test_what_is_kept_is_told_and_noted(few: int, watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was noted already, a rest, and another run, after one that somebody else has told."""
    monkeypatch.setattr(step_log, "FEW", few)
    told, kv = Told(), PagedKVCache(100, 16)
    if watched:
        kv.watch()
    log = StepLog(cast("Executor", Silent(told)), 3)
    log.add(5, 5, 0.5, 0, 1, StepTimes(0.5, 0.0, 0.0))
    entries = [1.0, 4, 2, 0, 0.25, 0.125, 90, NO_NOTE, 3.0, 0, 0, 0, 0.0, 0.0, 100, 7, 4.0, 1, 0, 512, 2.0, 0.0, 68, 7]
    log.take(entries, kv)
    log.tell()
    assert entries == []
    assert told.runs == [0.5, 1, 5, 0, 0.5, 0.0, 1.0, 4, 2, 0, 0.25, 0.125, 4.0, 1, 0, 512, 2.0, 0.0]
    notes = [column.tolist() for column in kv.notes]
    assert notes == ([[3.0, 4.0], [100, 68], [7, 7], [0, 0]] if watched else [[], [], [], []])


def test_a_run_is_told_in_stretches_whose_durations_grow_evenly() -> None:
    """Two bounds of a kernel: 1 s, or 0.25 s and 0.5 s more with each step, which takes over in the third step."""
    times = StepTimes(0.0, 0.0, 0.0)
    times.add([(1.0, 0.0), (0.25, 0.5)])
    assert list(stretches(4, 4, 10.0, 1, 4, times)) == [(10.0, 1, 4, 0, 1.0, 0.0), (11.0, 3, 4, 0, 1.25, 0.5)]
    assert list(stretches(4, 3, 10.0, 2, 1, StepTimes(1.0, 0.5, 0.0))) == [(10.0, 1, 3, 1, 2.0, 0.5)]
