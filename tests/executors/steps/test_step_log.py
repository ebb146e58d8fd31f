"""What observers hear of runs of steps: many at once, and stretches whose durations grow evenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from simsys.costs.step_times import StepTimes
from simsys.executors.executor import Executor
from simsys.executors.steps import step_log
from simsys.executors.steps.step_log import StepLog, stretches
from simsys.probes import Probe, Probes


class Told(Probe):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.runs: list[float] = []
        self.calls = 0

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        assert rank == 3
        self.calls += 1
        self.runs += runs


class Silent:
    """Of an executor, what a log knows."""

    def __init__(self, probe: Probe) -> None:
        self.probes, self.at_result = Probes([probe]), cast("Callable[..., Any]", lambda tell: None)


def test_observers_hear_of_runs_in_the_order_in_which_they_were_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many at once, as soon as there are enough."""
    monkeypatch.setattr(step_log, "NUMBERS", 4 * 6)
    heard = Told()
    log = StepLog(cast("Executor", Silent(heard)), 3)
    log.add(5, 5, 0.5, 0, 2, StepTimes(0.5, 0.25, 0.0))
    log.add_each(7, 4, 2.0, [2.5, 3.5])
    assert heard.runs == []
    log.add(1, 1, 4.0, 0, 1, StepTimes(1.0, 0.0, 0.0))
    noted = [0.5, 2, 5, 0, 0.5, 0.25, 2.0, 1, 4, 3, 0.5, 0.0, 2.5, 1, 4, 3, 1.0, 0.0, 4.0, 1, 1, 0, 1.0, 0.0]
    assert heard.runs == noted
    log.add(2, 2, 5.0, 0, 1, StepTimes(1.0, 0.0, 0.0))
    log.tell()
    log.tell()
    assert heard.runs == [*noted, 5.0, 1, 2, 0, 1.0, 0.0]
    assert heard.calls == 2


def test_a_run_is_told_in_stretches_whose_durations_grow_evenly() -> None:
    """Two bounds of a kernel: 1 s, or 0.25 s and 0.5 s more with each step, which takes over in the third step."""
    times = StepTimes(0.0, 0.0, 0.0)
    times.add([(1.0, 0.0), (0.25, 0.5)])
    assert list(stretches(4, 4, 10.0, 1, 4, times)) == [(10.0, 1, 4, 0, 1.0, 0.0), (11.0, 3, 4, 0, 1.25, 0.5)]
    assert list(stretches(4, 3, 10.0, 2, 1, StepTimes(1.0, 0.5, 0.0))) == [(10.0, 1, 3, 1, 2.0, 0.5)]
