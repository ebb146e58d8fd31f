from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import OutputError
from simsys.sweeps.evaluate import CRASHED, OK, Row
from simsys.sweeps.export import write_all
from simsys.sweeps.run import Summary, local, merge, run_sweep, summary_of
from simsys.sweeps.store import Store
from simsys.sweeps.worker import Setting, Task
from tests.helpers.sweeps import InThisProcess, plan

SWEEP: dict[str, Any] = {
    "over": {"parallelism.tp_degree": "1..8 x2", "training.batch_size_per_gpu": [1, 2, 10**6]},
    "repeats": 2,
}


def tables(folder: Path) -> list[bytes]:
    with Store(folder) as store:
        return [path.read_bytes() for path in write_all(store, "toy")]


class Interrupted(InThisProcess):
    """Workers that are interrupted after some shards."""

    after = 2

    def rows(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Row]]:
        """Rows of the first shards."""
        yield from super().rows(shards[: self.after])
        raise KeyboardInterrupt


def test_a_sweep_has_a_row_for_each_point(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    summary = run_sweep(
        plan(tmp_path, SWEEP), tmp_path / "out", InThisProcess, progress=lambda *each: seen.append(each)
    )
    assert (summary.total, summary.simulated, summary.missing) == (24, 24, 0)
    assert sum(summary.states.values()) == 24
    assert summary.states["does not fit"] >= 2
    assert seen[0] == (0, 24)
    assert seen[-1] == (24, 24)


def test_only_what_is_missing_runs_again(tmp_path: Path) -> None:
    found = plan(tmp_path, SWEEP)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(found, tmp_path / "out", Interrupted)
    with Store(tmp_path / "out") as store:
        before = summary_of(store)
    assert before.missing == 24 - 8
    assert "16 to run" in before.text()
    workers: list[InThisProcess] = []

    def start(setting: Setting) -> InThisProcess:
        workers.append(InThisProcess(setting))
        return workers[-1]

    assert run_sweep(found, tmp_path / "out", start).simulated == 16
    assert [task.position for task in workers[0].tasks] == list(range(8, 24))
    assert run_sweep(found, tmp_path / "out", start).simulated == 0
    run_sweep(found, tmp_path / "whole", InThisProcess)
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")


def test_the_number_of_workers_does_not_change_the_table(tmp_path: Path) -> None:
    found = plan(tmp_path, SWEEP)
    run_sweep(found, tmp_path / "here", InThisProcess)
    run_sweep(found, tmp_path / "there", local(2))
    assert tables(tmp_path / "here") == tables(tmp_path / "there")


def test_parts_are_merged_to_the_whole(tmp_path: Path) -> None:
    found = plan(tmp_path, SWEEP)
    run_sweep(found, tmp_path / "whole", InThisProcess)
    parts = [run_sweep(found, tmp_path / f"part-{k}", InThisProcess, part=(k, 3)) for k in (1, 2, 3)]
    assert [part.simulated for part in parts] == [8, 8, 8]
    merged = merge(tmp_path / "merged", [part.folder for part in parts])
    assert (merged.total, merged.missing) == (24, 0)
    assert tables(tmp_path / "merged") == tables(tmp_path / "whole")


def test_equal_points_run_once(tmp_path: Path) -> None:
    found = plan(tmp_path, {"over": {"parallelism.tp_degree": [1, 2, 1]}})
    summary = run_sweep(found, tmp_path / "out", InThisProcess)
    assert (summary.total, summary.simulated) == (3, 2)


def test_crashed_points_run_again_on_demand(tmp_path: Path) -> None:
    found = plan(tmp_path, {"over": {"parallelism.tp_degree": [1, 2]}})
    run_sweep(found, tmp_path / "out", InThisProcess)
    with Store(tmp_path / "out", write=True) as store:
        key = next(iter(store.points()))[0].key
        store.add([Row(key, CRASHED, "why")])
    assert run_sweep(found, tmp_path / "out", InThisProcess).states == {CRASHED: 1, OK: 1}
    again = run_sweep(found, tmp_path / "out", InThisProcess, retry=True)
    assert (again.simulated, again.states) == (1, {OK: 2})


def test_an_error_while_writing_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, add, calls = plan(tmp_path, SWEEP), Store.add, list[int]()

    def fails_later(store: Store, rows: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OutputError("cannot write: disk full")
        add(store, rows)

    monkeypatch.setattr(Store, "add", fails_later)
    with pytest.raises(OutputError):
        run_sweep(found, tmp_path / "out", InThisProcess)
    monkeypatch.undo()
    assert run_sweep(found, tmp_path / "out", InThisProcess).simulated == 16


@pytest.mark.parametrize(
    ("states", "code"),
    [({"ok": 1, "refused": 4}, 0), ({"refused": 5}, 2), ({"does not fit": 1, "refused": 4}, 3), ({"refused": 1}, 0)],
)
def test_exit_codes(states: dict[str, int], code: int) -> None:
    assert Summary(Path(), 5, states).exit_code == code
