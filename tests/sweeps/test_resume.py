"""A sweep that is killed at any moment and resumed equals one that was not, whatever the number of workers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simsys.sweeps.store import Store
from tests.helpers.sweeps import BASE, POISONED, experiment

SWEEP = {
    "over": {
        "training.batch_size_per_gpu": [1, 2, 4, 8, 10**6],
        "parallelism.tp_degree": [1, 2, 7],
        POISONED: ["ring_allreduce", "no.such:Module"],
    },
    "repeats": 2,
}
MOMENTS, FEW = 50, 1
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")


def command(path: Path, out: Path, jobs: int) -> list[str]:
    return [sys.executable, "-m", "simsys", "sweep", str(path), "--out", str(out), "--jobs", str(jobs)]


def table(out: Path) -> bytes:
    return (out / "toy" / "toy_sweep.csv").read_bytes()


def rows(out: Path) -> list[tuple[object, ...]]:
    with Store(out / "toy") as store:
        return [(point, row) for point, row in store.points()]


def whole(path: Path, out: Path) -> float:
    """Run the sweep without an interruption; the time it needs (s)."""
    started_s = time.monotonic()
    subprocess.run(command(path, out, 2), check=True, capture_output=True)
    return time.monotonic() - started_s


def killed(path: Path, out: Path, jobs: int, after_s: float) -> bool:
    """Kill the sweep after this time; whether it was still running."""
    with subprocess.Popen(command(path, out, jobs), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sweep:
        time.sleep(after_s)
        running = sweep.poll() is None
        os.kill(sweep.pid, signal.SIGKILL) if running else None
        sweep.communicate()
    return running


def compare(tmp_path: Path, moments: int) -> None:
    path, draws = experiment(tmp_path, SWEEP, {**BASE, "simulation": {"seed": 1}}), random.Random(moments)
    length_s = whole(path, tmp_path / "whole")
    kills = 0
    for moment in range(moments):
        out = tmp_path / f"killed-{moment}"
        for again in range(2 if moment % 5 == 1 else 1):  # a resumed sweep may be killed, too
            kills += killed(path, out, 1 + (moment + again) % 3, draws.uniform(0.1, 0.6 * length_s))
        subprocess.run(command(path, out, 1 + moment % 3), check=True, capture_output=True)
        assert table(out) == table(tmp_path / "whole")
        assert rows(out) == rows(tmp_path / "whole")
    assert kills >= moments


def test_a_killed_sweep_equals_a_whole_one(tmp_path: Path) -> None:
    compare(tmp_path, FEW)


@pytest.mark.slow
def test_a_sweep_killed_at_many_moments_equals_a_whole_one(tmp_path: Path) -> None:
    compare(tmp_path, MOMENTS)
