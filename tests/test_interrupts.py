"""An interrupt at any moment ends a command with 130, without a traceback, half-written file or orphan."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simsys import interrupts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

ENDLESS = """
name: endless
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
serving: {engine: vllm}
workload: {arrivals: {kind: poisson, rate: 20 req/s}, prompt_tokens: 50, output_tokens: 200, num_requests: 1000000}
"""


def restored() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # what is run in the background may ignore it
        signal.signal(number, signal.SIG_DFL)


def interrupted(command: list[str], after_s: float, *numbers: int) -> tuple[int, str]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=restored) as running:
        time.sleep(after_s)
        for number in numbers:
            running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    return running.returncode, errors.decode()


@pytest.mark.parametrize("seed", range(6))
def test_an_interrupt_at_any_moment(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    file = tmp_path / "endless.yaml"
    file.write_text(ENDLESS, encoding="utf-8")
    command = [sys.executable, "-m", "simsys", "run", str(file), "--out", str(tmp_path / "out")]
    numbers = drawn.choice([(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)])
    code, errors = interrupted(command, drawn.uniform(0.3, 3.0), *numbers)
    assert code == 130, errors
    assert errors.startswith("interrupted")
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def program(body: str) -> list[str]:
    return [sys.executable, "-c", f"from simsys import interrupts; interrupts.install()\n{body}"]


def signalled(body: str) -> tuple[int, str]:
    process = subprocess.run(program(body), capture_output=True, text=True, check=False, preexec_fn=restored)
    return process.returncode, process.stderr


def test_an_interrupt_ends_the_process_and_removes_temporary_files(tmp_path: Path) -> None:
    half = tmp_path / "half.tmp"
    half.touch()
    body = f"import os, pathlib; interrupts.remove_at_end(pathlib.Path({str(half)!r})); os.kill(os.getpid(), 2)"
    assert signalled(body) == (130, "interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "body",
    [
        "try: os.kill(os.getpid(), 2); time.sleep(9)\n    except KeyboardInterrupt: pass",
        "try: os.kill(os.getpid(), 2); time.sleep(9)\n    except KeyboardInterrupt: raise ImportError",
        "os.kill(os.getpid(), 2); time.sleep(9)",
    ],
    ids=["caught", "turned into another error", "raised"],
)
def test_an_interrupt_is_not_lost_on_the_way(body: str) -> None:
    told = "except KeyboardInterrupt: print('told', flush=True)"
    text = f"import os, time\ntry:\n  with interrupts.raised():\n    {body}\n{told}"
    process = subprocess.run(program(text), capture_output=True, text=True, check=False, preexec_fn=restored)
    assert (process.returncode, process.stdout, process.stderr) == (0, "told\n", "")


def test_an_interrupt_in_a_destructor_ends_the_process() -> None:
    body = """import os, time
class Odd:
  def __del__(self):
    os.kill(os.getpid(), 2); time.sleep(9)
with interrupts.raised():
  odd = Odd(); del odd; time.sleep(9)"""
    assert signalled(body) == (130, "interrupted\n")


def test_a_second_interrupt_ends_the_process_at_once() -> None:
    body = """import os, time
with interrupts.raised():
  try:
    os.kill(os.getpid(), 2); time.sleep(9)
  finally:
    os.kill(os.getpid(), 2); time.sleep(9)"""
    assert signalled(body) == (130, "interrupted\n")


def test_what_is_ignored_stays_ignored() -> None:
    text = program("import os; os.kill(os.getpid(), 2); print('done')")
    ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
    process = subprocess.run(text, capture_output=True, text=True, check=False, preexec_fn=ignore)
    assert (process.returncode, process.stdout) == (0, "done\n")


def test_the_exit_code_is_that_of_a_shell() -> None:
    assert interrupts.INTERRUPTED == 128 + signal.SIGINT
