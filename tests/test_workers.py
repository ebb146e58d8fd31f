"""Processes that work for another one end when it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simsys.workers import ALLOCATIONS, collect_rarely

PARENT = """
import multiprocessing, os, sys, time
from simsys.workers import begin_work, starting_workers

def work():
    begin_work()
    print(os.getpid(), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    with starting_workers():
        multiprocessing.get_context("fork").Process(target=work).start()
    time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
def test_workers_end_with_the_process_that_they_work_for() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        try:
            state = Path(f"/proc/{worker}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except OSError:
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker goes on")


@pytest.mark.parametrize(("before", "after"), [(700, ALLOCATIONS), (ALLOCATIONS + 1, ALLOCATIONS + 1), (0, 0)])
def test_garbage_is_collected_rarely_but_never_more_often(before: int, after: int) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(before)
        collect_rarely()
        assert gc.get_threshold()[0] == after
    finally:
        gc.set_threshold(*thresholds)
