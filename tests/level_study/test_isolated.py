"""A function in a process of its own answers, raises, or is given up."""

from __future__ import annotations

import os
import time

import pytest

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
