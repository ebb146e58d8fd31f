"""A process that works for another one ends with it, and does not get its interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

PARENT = """
import multiprocessing, os, sys, time
from simsys.workers import begin_work, starting_workers

def work():
    begin_work()
    print(os.getpid(), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    with starting_workers():
        worker = multiprocessing.get_context(sys.argv[1]).Process(target=work)
        worker.start()
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_it_ends_when_the_process_that_it_works_for_is_killed(tmp_path: object, method: str) -> None:
    file = f"{tmp_path}/parent.py"
    with open(file, "w", encoding="utf-8") as text:
        text.write(PARENT)
    with subprocess.Popen([sys.executable, file, method], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        assert alive(pid), "an interrupt is not for it"
        parent.kill()
        parent.wait()
        ends = time.monotonic() + 20
        while alive(pid) and time.monotonic() < ends:
            time.sleep(0.02)
        assert not alive(pid)
