"""Progress of a sweep: a line on a terminal with rate, share and time left; a line a minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

LOG_S = 60.0
SHOW_S = 0.2
"""Intervals between two lines of a log, and between two changes of a line on a terminal."""
_ERASE = "\r\x1b[2K"


class SweepProgress:
    """Context manager that reports the progress of a sweep; call it with the numbers of done and of all points.

    Args:
        name: The scenario's name.
        stream: Where to write; standard error by default.
        clock: The time in seconds.
    """

    def __init__(self, name: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._began: tuple[float, int] | None = None
        self._shown_s = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._write(_ERASE)

    def __call__(self, done: int, total: int) -> None:
        """Report that points are done."""
        now_s = self._clock()
        if self._began is None:
            self._began = now_s, done
        if now_s - self._shown_s < (SHOW_S if self._terminal else LOG_S):
            return
        self._shown_s = now_s
        text = self._text(done, total, now_s)
        self._write(f"{_ERASE}{text}" if self._terminal else f"{text}\n")

    def _text(self, done: int, total: int, now_s: float) -> str:
        assert self._began is not None
        began_s, before = self._began
        rate = (done - before) / (now_s - began_s) if now_s > began_s else 0.0
        left = f", {_duration((total - done) / rate)} left" if rate else ""
        return f"{self._name}: {done:,} of {total:,} points ({done / total:.0%}), {_rate(rate)}{left}"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, AttributeError):  # closed
            self._terminal = False


def _rate(per_s: float) -> str:
    return f"{per_s:.3g} points/s" if per_s >= 1 or not per_s else f"{60 * per_s:.3g} points/min"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
