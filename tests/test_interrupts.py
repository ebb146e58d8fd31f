"""Interrupts at any moment end the command line with exit code 130, without traceback, and leave whole files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simsys import interrupts
from tests.helpers.places import ROOT

RUN = ["run", str(ROOT / "experiments" / "experiment_config.yaml"), "--quiet"]


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(*arguments: str) -> subprocess.Popen[str]:
    """The command line as a shell in the foreground starts it: one in the background may have interrupts ignored."""
    return subprocess.Popen(
        [sys.executable, "-m", "simsys", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=_hear_interrupts,
    )


def handles_interrupts(process: subprocess.Popen[str]) -> bool:
    """Whether a process has handlers for signals of its own, as the kernel knows."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def interrupted_after(seconds: float, number: signal.Signals, out: Path) -> tuple[int, str]:
    """Exit code and standard error of a run that is interrupted so long after it handles signals."""
    process = started(*RUN, "--out", str(out))
    while process.poll() is None and not handles_interrupts(process):
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.4, 0.9])
def test_an_interrupt_ends_with_130_and_whole_files(seconds: float, number: signal.Signals, tmp_path: Path) -> None:
    code, errors = interrupted_after(seconds, number, tmp_path)
    assert code in ((0, 130) if seconds > 0.5 else (130,)), errors
    assert "Traceback" not in errors
    if code:
        assert "interrupted" in errors
    for path in tmp_path.rglob("*"):
        assert path.suffix != ".tmp"
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))


def test_the_first_interrupt_raises_where_that_is_asked_for() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        interrupts._interrupted(signal.SIGINT, None)
    assert not interrupts._State.raises


@pytest.mark.skipif(not interrupts.REPEATS, reason="needs a timer")
def test_an_interrupt_that_something_lost_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports of C extensions lose exceptions; what they were for would run for ever."""
    monkeypatch.setattr(interrupts, "AGAIN_AFTER_S", 0.05)

    def lose() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            interrupts._interrupted(signal.SIGTERM, None)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(10.0)
        time.sleep(10.0)

    started_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        lose()
    assert time.monotonic() - started_s < 5.0
    assert signal.setitimer(signal.ITIMER_REAL, 0.0)[0] == 0.0, "no timer is left"


def test_an_interrupt_that_something_caught_is_raised_at_the_end() -> None:
    def catch() -> None:
        try:
            interrupts._interrupted(signal.SIGINT, None)
        except BaseException:
            return

    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        catch()


def test_leaving_removes_temporary_files(tmp_path: Path) -> None:
    file = tmp_path / ".a.csv.0123abcd.tmp"
    script = (
        "import sys; from pathlib import Path; from simsys import interrupts; path = Path(sys.argv[1]);"
        "interrupts.remove_at_end(path); path.write_text('half'); interrupts.leave()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert not file.exists()
