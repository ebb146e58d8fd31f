"""CSV output of all tables; no text is a formula for a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

_BLOCK = 1 << 14  # rows that are in memory at once
_NUMBERS = frozenset({int, float, bool, type(None)})
_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(file: TextIO, names: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows.

    A text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV Injection"); numbers,
    also those that are formatted already, stay as they are.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows(map(_cell, row) for row in rows)


def write_columns(file: TextIO, table: Mapping[str, Sequence[Any]]) -> None:
    """Write a table given as columns of one length, with texts as by `write_csv`.

    Columns of numbers are recognised by the types of their values, without a function call for each cell.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, table))
    columns = list(table.values())
    for start in range(0, max(map(len, columns), default=0), _BLOCK):
        writer.writerows(zip(*(_cells(column[start : start + _BLOCK]) for column in columns), strict=True))


def _cells(values: Sequence[Any]) -> Iterable[Any]:
    cells = list(values)
    kinds = set(map(type, cells))
    if kinds == {str}:
        return map({text: _cell(text) for text in set(cells)}.__getitem__, cells)  # most texts repeat
    return cells if _NUMBERS.issuperset(kinds) else map(_cell, cells)


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
