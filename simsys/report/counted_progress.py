"""Progress of counted work: a line on a terminal with rate, share and time left; a line a minute in a log."""

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


class CountedProgress:
    """Context manager that reports progress; call it with the numbers of done and of all things.

    Args:
        name: What is worked on, such as the name of a scenario.
        noun: What is counted, in the plural.
        stream: Where to write; standard error by default.
        clock: The time in seconds.
    """

    def __init__(
        self, name: str, noun: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._noun, self._clock = name, noun, clock
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._began: tuple[float, int] | None = None
        self._shown_s, self._done = clock(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._write(_ERASE)

    def __call__(self, done: int, total: int) -> None:
        """Report that things are done; a smaller number than before begins another round."""
        now_s = self._clock()
        if self._began is None or done < self._done:
            self._began = now_s, done
        self._done = done
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
        return f"{self._name}: {done:,} of {total:,} {self._noun} ({done / total:.0%}), {self._rate(rate)}{left}"

    def _rate(self, per_s: float) -> str:
        return f"{per_s:.3g} {self._noun}/s" if per_s >= 1 or not per_s else f"{60 * per_s:.3g} {self._noun}/min"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, AttributeError):  # closed
            self._terminal = False


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
