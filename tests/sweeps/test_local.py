from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from simsys.errors import SimsysError
from simsys.sweeps import local
from simsys.sweeps.evaluate import CRASHED, FAILED, OK, REFUSED, TIMED_OUT, UNFIT, Row
from simsys.sweeps.local import LocalWorkers
from simsys.sweeps.worker import Setting, Task
from simsys.user_modules import UserModules
from tests.helpers.sweeps import BASE, POISONED, experiment

GOOD = "ring_allreduce"


def rows(folder: Path, patterns: list[str], jobs: int, size: int, timeout_s: float = math.inf) -> dict[str, Row]:
    """Rows by key of points with these communication patterns, in shards of this size."""
    experiment(folder, {})
    setting = Setting(BASE, folder, UserModules([folder]))
    tasks = [Task(index, f"{index} {text}", {POISONED: text}) for index, text in enumerate(patterns)]
    shards = [tasks[start : start + size] for start in range(0, len(tasks), size)]
    with LocalWorkers(setting, jobs, timeout_s) as workers:
        found = [row for batch in workers.rows(shards) for row in batch]
    assert len(found) == len({row.key for row in found}) == len(tasks)
    return {row.key.partition(" ")[2]: row for row in found}


def test_a_poisonous_point_costs_its_row_and_no_other(tmp_path: Path) -> None:
    poison = ["exits:A", "killed:A", "raises:A", "leaves:A"]
    patterns = [GOOD, *poison, "auto", "no.such:Module", "tree_allreduce"]
    found = rows(tmp_path, patterns, jobs=1, size=len(patterns))
    assert [found[name].state for name in (GOOD, "auto")] == [OK, OK]
    assert found["exits:A"].state == found["killed:A"].state == CRASHED
    assert "exit code 3" in found["exits:A"].reason
    assert "SIGKILL, as when memory runs out" in found["killed:A"].reason
    assert found["raises:A"].state in (FAILED, REFUSED)
    assert "poison" in found["raises:A"].reason
    assert found["leaves:A"].state in (CRASHED, FAILED, REFUSED)
    assert found["no.such:Module"].state == REFUSED


def test_a_hanging_point_times_out(tmp_path: Path) -> None:
    started_s = time.monotonic()
    found = rows(tmp_path, ["hangs:A", GOOD, "auto"], jobs=1, size=3, timeout_s=1.5)
    assert found["hangs:A"] == Row("0 hangs:A", TIMED_OUT, "ran for more than 1.5 s (--point-timeout)")
    assert found[GOOD].state == found["auto"].state == OK
    assert time.monotonic() - started_s < 60


def test_a_point_that_does_not_fit_has_its_reason(tmp_path: Path) -> None:
    task = Task(0, "key", {"training.batch_size_per_gpu": 10**6})
    with LocalWorkers(Setting(BASE, tmp_path, UserModules()), 1) as workers:
        (row,) = next(iter(workers.rows([[task]])))
    assert row.state == UNFIT
    assert "does not fit into H100-SXM" in row.reason


@pytest.mark.slow
def test_a_worker_that_is_killed_from_outside_loses_nothing(tmp_path: Path) -> None:
    tasks = [Task(index, str(index), {"training.num_iterations": index + 1}) for index in range(60)]
    found = list[str]()
    with LocalWorkers(Setting(BASE, tmp_path, UserModules()), 2) as workers:
        killed = 0
        for batch in workers.rows([tasks[:30], tasks[30:]]):
            found += [row.key for row in batch if row.state == OK]
            if killed < 2:
                os.kill(workers._workers[0].process.pid or 0, 9)
                killed += 1
    assert sorted(found, key=int) == [task.key for task in tasks]


@pytest.mark.slow
def test_processes_that_cannot_start_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "work", os._exit)
    with (
        LocalWorkers(Setting(BASE, tmp_path, UserModules()), 1) as workers,
        pytest.raises(SimsysError, match="end before their first point"),
    ):
        list(workers.rows([[Task(0, "key", {})]]))


@pytest.mark.slow
def test_an_estimate_survives_poison(tmp_path: Path) -> None:
    experiment(tmp_path, {})
    setting = Setting(BASE, tmp_path, UserModules([tmp_path]))
    with LocalWorkers(setting, 1) as workers:
        assert workers.mean_estimate_s([Task(0, "key", {POISONED: "exits:A"})]) is None
        estimate_s = workers.mean_estimate_s([Task(0, "key", {})])
        assert estimate_s is not None
        assert 0.01 <= estimate_s < 1.0
        assert [row.state for batch in workers.rows([[Task(0, "key", {})]]) for row in batch] == [OK]
