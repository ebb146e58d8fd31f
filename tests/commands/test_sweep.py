from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys.cli import cli
from simsys.sweeps.store import FILENAME, Store
from tests.helpers.sweeps import BASE, InThisProcess, experiment

GRID = {"over": {"parallelism.tp_degree": [1, 2, 7], "training.batch_size_per_gpu": [1, 10**6]}}


def call(*args: object) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli, [str(arg) for arg in args], prog_name="simsys")
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a worker process takes longer than these points."""
    monkeypatch.setattr("simsys.sweeps.run.local", lambda jobs, timeout_s: InThisProcess)


def process(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simsys", "sweep", *map(str, args)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background may ignore it
    )


def test_a_sweep_writes_a_table_and_resumes(tmp_path: Path) -> None:
    path, out = experiment(tmp_path, GRID), tmp_path / "out"
    code, text, _ = call("sweep", path, "--out", out, "--jobs", 1)
    assert code == 0
    assert text.splitlines()[0] == "toy: 6 points: 2 does not fit, 2 ok, 2 refused"
    table = (out / "toy" / "toy_sweep.csv").read_bytes()
    assert len(table.splitlines()) == 7
    code, text, _ = call("sweep", path, "--out", out, "--json")
    answer = json.loads(text)["sweeps"][0]
    assert (answer["points"], answer["simulated"], answer["missing"]) == (6, 0, 0)
    assert (out / "toy" / "toy_sweep.csv").read_bytes() == table


@pytest.mark.usefixtures("in_this_process")
def test_status_and_export_read_the_store(tmp_path: Path) -> None:
    call("sweep", experiment(tmp_path, GRID), "--out", tmp_path, "--jobs", 1)
    folder = tmp_path / "toy"
    assert call("sweep", "status", folder)[1] == "toy: 6 points: 2 does not fit, 2 ok, 2 refused\n"
    assert json.loads(call("sweep", "status", folder, "--json")[1])["states"] == {
        "does not fit": 2,
        "ok": 2,
        "refused": 2,
    }
    code, _, said = call("sweep", "export", folder, "--to", tmp_path / "t.csv", "--metric", "bubble_s")
    assert code == 0
    assert "wrote" in said
    assert "bubble_s" in (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()[0]
    assert call("sweep", "export", folder, "--metric", "bubble")[0] == 2
    assert call("sweep", "status", tmp_path)[0] == 2


@pytest.mark.usefixtures("in_this_process")
def test_parts_are_merged(tmp_path: Path) -> None:
    path = experiment(tmp_path, GRID)
    for k in (1, 2):
        assert call("sweep", path, "--out", tmp_path / str(k), "--part", f"{k}/2", "--jobs", 1)[0] == 0
    assert "3 to run" in call("sweep", "status", tmp_path / "1" / "toy")[1]
    code, text, _ = call("sweep", "merge", tmp_path / "all", tmp_path / "1" / "toy", tmp_path / "2" / "toy")
    assert (code, text.splitlines()[0]) == (0, "toy: 6 points: 2 does not fit, 2 ok, 2 refused")
    assert call("sweep", path, "--part", "3/2")[0] == 2
    assert call("sweep", "merge", tmp_path / "all", tmp_path)[0] == 2


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("over", "code"),
    [({"parallelism.tp_degree": [7]}, 2), ({"training.batch_size_per_gpu": [10**6]}, 3)],
)
def test_a_sweep_without_a_result_has_the_exit_code_of_its_reason(
    tmp_path: Path, over: dict[str, Any], code: int
) -> None:
    assert call("sweep", experiment(tmp_path, {"over": over}), "--out", tmp_path, "--jobs", 1)[0] == code


def test_wrong_input_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for sweep, text in (
        ({"over": {"parallelism.tp_degre": [1]}}, "did you mean 'tp_degree'"),
        ({"over": {"parallelism.tp_degree": [1]}, "where": "tp > 1"}, "unknown setting 'tp'"),
        ({"over": {"parallelism.tp_degree": "1..10000000000"}}, "10,000,000,000 points"),
        ({"over": {"parallelism.tp_degree": [1]}, "metrics": ["mfus"]}, "did you mean 'mfu'"),
    ):
        code, _, said = call("sweep", experiment(tmp_path, sweep), "--out", tmp_path / "out")
        assert code == 2
        assert text in said
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("in_this_process")
def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    call("sweep", experiment(tmp_path, GRID), "--out", tmp_path, "--jobs", 1)
    other = experiment(tmp_path, {"over": {"parallelism.tp_degree": [1, 4]}})
    code, _, said = call("sweep", other, "--out", tmp_path)
    assert code == 2
    assert "other settings; give another folder with --out" in said


@pytest.mark.parametrize(
    ("section", "data"),
    [("sweep", {"sweep": GRID}), ("search", {"search": {}, "training": {"global_batch_size": 8}})],
)
def test_run_says_which_command_runs_a_section(tmp_path: Path, section: str, data: dict[str, Any]) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump({"name": "toy", **BASE, **data}), encoding="utf-8")
    code, text, said = call("run", path, "--no-files", "--quiet")
    assert code == 0
    assert text.startswith("toy: ")
    note = f"the section '{section}' is not run here, but by 'simsys {section} {path}'"
    assert f"note: {note}" in said
    assert json.loads(call("run", path, "--no-files", "--json")[1])["notes"] == [note]


def test_a_sweep_prints_its_table_sorted_and_cut_if_asked(tmp_path: Path) -> None:
    path, out = experiment(tmp_path, GRID), tmp_path / "out"
    lines = call("sweep", path, "--out", out, "--jobs", 1)[1].splitlines()
    table = lines[next(place for place, line in enumerate(lines) if line.startswith("tp_degree")) :]
    assert table[0].split()[:4] == ["tp_degree", "batch_size_per_gpu", "iteration", "tokens/s/GPU"]
    assert table[0].endswith("state")
    assert len(table[:7]) == 7
    assert table[6].endswith("refused")
    assert any(line.startswith("not simulated (1 of 6 rows): ") for line in table)
    cut = call("sweep", path, "--out", out, "--sort", "-samples_per_s", "--rows", 1)[1]
    assert "… 5 more rows" in cut
    assert "samples_per_s" in cut
    code, _, said = call("sweep", path, "--out", out, "--sort", "samples_per_ss")
    assert code == 2
    assert "unknown column 'samples_per_ss', did you mean 'samples_per_s'?" in said


def test_check_counts_the_points_of_a_sweep(tmp_path: Path) -> None:
    code, text, _ = call("check", experiment(tmp_path, GRID))
    assert (code, text.endswith("ok, a sweep of toy with 6 points\n")) == (0, True)
    answer = json.loads(call("check", experiment(tmp_path, GRID), "--json")[1])
    assert (answer["scenarios"], answer["sweeps"]) == ([], {"toy": 6})
    for sweep, expected in (
        ({"over": {"parallelism.tp_degre": [1]}}, 2),
        ({"over": {"parallelism.tp_degree": [7]}}, 2),
        ({"over": {"training.batch_size_per_gpu": [10**6]}}, 3),
    ):
        assert call("check", experiment(tmp_path, sweep))[0] == expected


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_an_interrupted_sweep_exits_with_130_and_resumes(tmp_path: Path) -> None:
    path = experiment(tmp_path, {"over": {"simulation.seed": "1..3000"}}, {**BASE, "simulation": {"lod": "high"}})
    with process(path, "--out", tmp_path, "--jobs", 1) as sweep:
        _wait_for_rows(tmp_path / "toy", 1)
        sweep.send_signal(signal.SIGINT)
        _, said = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert f"interrupted; to run the rest: simsys sweep {path} --out {tmp_path}" in said
    with Store(tmp_path / "toy") as store:
        assert 0 < len(store.states()) < 3000


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs limits")
def test_a_full_disk_ends_a_sweep_that_the_same_command_then_finishes(tmp_path: Path) -> None:
    path = experiment(tmp_path, {"over": {"simulation.seed": "1..40"}})
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); "
        "from simsys.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "sweep", str(path), "--out", str(tmp_path), "--jobs", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 2
    assert "cannot write" in found.stderr
    assert "the same command continues the sweep" in found.stderr
    assert "Traceback" not in found.stderr
    code, text, _ = call("sweep", path, "--out", tmp_path, "--jobs", 1, "--rows", 0)
    assert (code, text.splitlines()[0]) == (0, "toy: 40 points: 40 ok")


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({}, "nothing varies; give over, zip or sample"),
        ({"over": {"parallelism.tp_degree": []}}, "the list has no values"),
        (
            {"over": {"parallelism.tp_degree": None}},
            "write a list of values or a range (1..64 x2), not an empty value",
        ),
        ({"over": {"training.num_iterations": "1..1000000000000"}}, "the sweep has 1,000,000,000,000 points, at most"),
        ({"over": {"parallelism.tp_degree": [1], "simulation.seed": [1]}, "repeats": 10**12}, "must be at most 1000"),
        ({"over": {"parallelism.tp_degre": [1]}}, "unknown key 'tp_degre', did you mean 'tp_degree'?"),
        ({"over": {"parallelism.tp_degree": [1]}, "metrics": ["mfuu"]}, "did you mean 'mfu'?"),
        ({"over": {"parallelism.tp_degree": [1]}, "where": "tp_degree > 10"}, "no point meets the conditions: all 1"),
        ({"over": {"parallelism.tp_degree": [1]}, "where": "tp_degre > 1"}, "did you mean 'tp_degree'?"),
        ({"over": {"parallelism.tp_degree": [1]}, "where": "9**9**9 > 1"}, "is not allowed in a condition"),
        ({"zip": [{"parallelism.tp_degree": [1]}]}, "sweep.zip[0]: needs at least 2 entries, not 1"),
    ],
)
def test_an_absurd_sweep_is_refused_before_anything_runs(tmp_path: Path, sweep: dict[str, Any], said: str) -> None:
    code, text, error = call("sweep", experiment(tmp_path, sweep), "--out", tmp_path / "out")
    assert (code, text) == (2, "")
    assert said in error
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs locks")
def test_a_second_sweep_on_one_store_is_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path, GRID)
    with Store(tmp_path / "toy", write=True):
        code, _, error = call("sweep", path, "--out", tmp_path, "--jobs", 1)
    assert code == 2
    assert "another sweep writes here; give another folder with --out" in error


def _wait_for_rows(folder: Path, count: int) -> None:
    for _ in range(600):
        time.sleep(0.05)
        if (folder / FILENAME).exists():
            try:
                with Store(folder) as store:
                    if len(store.states()) >= count:
                        return
            except Exception:  # it is being made
                continue
    pytest.fail("no rows are written")
