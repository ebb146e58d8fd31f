"""CSV output of all tables; no text is a formula for a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(file: TextIO, names: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows.

    A text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV Injection"); numbers,
    also those that are formatted already, stay as they are.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows(map(_cell, row) for row in rows)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    formula = value.startswith(_STARTS) and not _is_number(value)
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # Python before 3.13 does not quote a lone CR
    return f"'{text}" if formula else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
