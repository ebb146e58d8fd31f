"""A function in a process of its own answers, raises, or is given up."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

import pytest

import simsys.level_study.isolated
from simsys.errors import InfeasibleError, InternalError, SimsysError, UnknownNameError, UsageError
from simsys.level_study.isolated import TooSlowError, isolated


def doubled(value: int, *, more: int = 0) -> int:
    return 2 * value + more


def unknown() -> None:
    raise UnknownNameError("model", "Lama", ["Llama"])


def too_large() -> None:
    raise InfeasibleError("does not fit")


def divided() -> float:
    return 1 / 0


def killed() -> None:
    os._exit(9)


def ended(child: int) -> bool:
    """Whether a child has ended, or does soon."""
    for _ in range(100):
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def test_it_answers_from_another_process() -> None:
    assert isolated(doubled, 30.0, 21, more=1) == 43
    assert isolated(os.getpid, 30.0) != os.getpid()


def test_what_takes_too_long_is_given_up() -> None:
    started = time.monotonic()
    with pytest.raises(TooSlowError, match=r"given up after 0\.2 s"):
        isolated(time.sleep, 0.2, 60.0)
    assert time.monotonic() - started < 30.0


def test_errors_come_back_with_their_exit_code() -> None:
    with pytest.raises(UsageError, match="did you mean 'Llama'"):
        isolated(unknown, 30.0)
    with pytest.raises(InfeasibleError, match="does not fit"):
        isolated(too_large, 30.0)


def test_a_bug_comes_back_with_its_place_and_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InternalError, match=r"division by zero in divided \(test_isolated\.py:\d+\)"):
        isolated(divided, 30.0)
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_dies_says_so() -> None:
    with pytest.raises(SimsysError, match="code 9"):
        isolated(killed, 30.0)


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs processes to fork from")
@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupt_while_a_process_starts_ends_it_and_the_one_that_it_comes_from(
    begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupts that come while signals are blocked are raised when the process has started."""

    @contextmanager
    def interrupted() -> Iterator[None]:
        if begun:
            yield
        raise KeyboardInterrupt

    assert isolated(doubled, 30.0, 1) == 2
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    monkeypatch.setattr(simsys.level_study.isolated, "starting_workers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        isolated(time.sleep, 60.0, 60.0)
    assert ended(server._forkserver_pid)
    server._forkserver_pid = None
    assert not multiprocessing.active_children()
    monkeypatch.undo()
    assert isolated(doubled, 30.0, 21) == 42
