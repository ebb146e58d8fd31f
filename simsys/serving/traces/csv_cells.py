"""Readers of the cells of CSV traces: each function makes, of the name of a column, what reads one of its cells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from simsys.serving.traces.columns import TIMESTAMP
from simsys.serving.traces.rows import BadRow

Reader = Callable[[str], Any]
"""Reads the text of a cell; raises `BadRow`."""

_MOST_DIGITS = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def timestamp_cell(name: str) -> Reader:
    """Make the function that reads ``2023-11-16 18:17:03.9799600`` as nanoseconds of the Unix epoch.

    Integers, because a float of seconds since 1970 keeps only about 0.2 us. Without an offset it is UTC.
    """
    reason = f"{name} that is no time such as 2023-11-16 18:17:03.9799600"

    def read(text: str) -> int:
        match = TIMESTAMP.fullmatch(text)
        if match is not None:
            with contextlib.suppress(ValueError):  # such as month 13
                moment = datetime.fromisoformat(match[1] + (match[3] or "Z"))
                return (moment - _EPOCH) // _SECOND * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))
        raise BadRow(reason, text)

    return read


def whole_cell(lowest: int) -> Callable[[str], Reader]:
    """Make the maker of functions that read a whole number of at least `lowest`."""

    def maker(name: str) -> Reader:
        def read(text: str) -> int:
            if text.removeprefix("-").isdigit() and text.isascii() and len(text) <= _MOST_DIGITS:
                number = int(text)
                if number >= lowest:
                    return number
            raise BadRow(f"{name} that is not a whole number from {lowest}", text)

        return read

    return maker


def label_cell(name: str) -> Reader:
    """Create the function that numbers texts in order of appearance; each empty text gets its own number."""
    known: dict[str | int, int] = {}
    return lambda text: known.setdefault(text or len(known), len(known))


def ids_cell(name: str) -> Reader:
    """Make the function that reads whole numbers with spaces between them."""

    def read(text: str) -> tuple[int, ...]:
        try:
            return tuple(map(int, text.split()))
        except ValueError:
            raise BadRow(f"{name} that are no whole numbers with spaces between them", text) from None

    return read
