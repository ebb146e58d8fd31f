"""Processes that work for another one end when it ends."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from simsys.workers import begin_work, end_workers

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


def ended(worker: int) -> bool:
    """Whether a process has ended, or does soon."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{worker}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
def test_workers_end_with_the_process_that_they_work_for() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    assert ended(worker)


def test_a_pool_ends_at_once_whatever_its_processes_do() -> None:
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=begin_work)
    pool.submit(time.sleep, 60.0)
    started_s = time.monotonic()
    end_workers(pool)
    assert time.monotonic() - started_s < 30.0
    assert not multiprocessing.active_children()


LEAVING = """
import multiprocessing, os, time
from simsys import interrupts

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60.0,))
    process.start()
    print(process.pid, flush=True)
    interrupts.leave()
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
def test_workers_that_have_not_begun_end_with_an_interrupted_process() -> None:
    with subprocess.Popen([sys.executable, "-c", LEAVING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
    assert parent.returncode == 130
    assert ended(worker)
