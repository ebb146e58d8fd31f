"""Tables of measurements as CSV: rows with places, problems, and the set of used columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from simsys.errors import ConfigError, Problem, UsageError, did_you_mean
from simsys.fidelity.case import measurable
from simsys.input_files import read_text, unreadable

T = TypeVar("T")

DESCRIBING = frozenset({"id", "source", "source_key", "group", "notes", "engine_version", "quality"})
"""Columns about the origin of a row; they are not reported as unused."""

MOST = 2**53
"""Largest whole number of a table; up to it, floats are exact."""


@dataclass(frozen=True)
class Row:
    """One row.

    Args:
        cells: Text by column.
        file: The file as the user wrote it.
        line: The line where it begins, counted from 1.
        record: Its lines of text.
        used: The columns that were read, of all rows together; filled by reading.
        problems: Its problems; filled by reading.
    """

    cells: Mapping[str, str]
    file: str
    line: int
    record: Sequence[str] = field(default=(), repr=False)
    used: set[str] = field(default_factory=set, repr=False)
    problems: list[Problem] = field(default_factory=list, repr=False)

    def text(self, column: str) -> str:
        """Return a cell without surrounding spaces; empty if there is no such column."""
        self.used.add(column)
        return (self.cells.get(column) or "").strip()

    def whole(self, column: str, default: int | None = None) -> int:
        """Return a positive whole number, also if written as ``8.0``; `default` if the cell is empty."""
        return self._number(column, default, _whole, lambda number: number > 0, "a whole number from 1")

    def length(self, column: str) -> int:
        """Return a number of tokens; means are rounded to the nearest whole number."""
        return self._number(column, None, _nearest, lambda number: number > 0, "a number of tokens from 1")

    def number(self, column: str, default: float | None = None) -> float:
        """Return a positive number in the range of measured values; `default` if the cell is empty."""
        return self._number(column, default, float, measurable, "a number above 0")

    def wrong(self, column: str, message: str) -> None:
        """Add a problem of a column, once."""
        line, place = self._place(column)
        problem = Problem(message, column, self.file, line, place)
        if problem not in self.problems:
            self.problems.append(problem)

    def _place(self, column: str) -> tuple[int, int]:
        """Return line and column of the file where a cell begins."""
        if column not in self.cells or not self.record:
            return self.line, 0
        return list(_places(self.record, self.line))[list(self.cells).index(column)]

    def _number(
        self, column: str, default: T | None, read: Callable[[str], T], allowed: Callable[[T], bool], what: str
    ) -> T:
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            number = read(text)
            if allowed(number):
                return number
        except (ValueError, OverflowError):
            pass
        self.wrong(column, f"{text!r} is not {what}" if text else f"is empty; it needs {what}")
        return read("1")  # the row is left out after all its cells are read


@dataclass(frozen=True)
class Table:
    """A CSV file with a header.

    Args:
        file: The file as the user wrote it.
        columns: Its header.
        rows: The rows with a cell for each column.
        problems: Problems of the other rows.
        used: The columns that were read.
    """

    file: str
    columns: Sequence[str]
    rows: Sequence[Row]
    problems: list[Problem]
    used: set[str] = field(default_factory=set)

    @property
    def all_problems(self) -> list[Problem]:
        """Problems of the table and its rows, in the order of the file."""
        found = [*self.problems, *(problem for row in self.rows for problem in row.problems)]
        return sorted(found, key=lambda problem: (problem.line, problem.column))

    @property
    def unused(self) -> list[str]:
        """Columns that were not read, except those in `DESCRIBING`."""
        return [column for column in self.columns if column not in self.used | DESCRIBING]

    def check(self) -> None:
        """Check that there are no problems.

        Raises:
            ConfigError: With all problems, in the order of the file.
        """
        if self.all_problems:
            raise ConfigError(self.all_problems)

    def require(self, columns: Iterable[str]) -> None:
        """Check that columns are there.

        Raises:
            ConfigError: Names the missing columns.
        """
        missing = [column for column in columns if column not in self.columns]
        if missing:
            problems = [
                Problem(f"column {column!r} is missing{did_you_mean(column, self.columns)}", "", self.file, 1)
                for column in missing
            ]
            raise ConfigError(problems)


def read_table(path: Path) -> Table:
    """Read a CSV file; a byte-order mark and empty lines do not matter.

    Rows with more or fewer cells than the header are among the problems of the table.

    Raises:
        UsageError: It cannot be read, or has no rows.
    """
    try:
        lines = list(io.StringIO(read_text(path), newline=""))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    columns: list[str] = []
    rows: list[Row] = []
    problems: list[Problem] = []
    table = Table(str(path), columns, rows, problems)
    reader = csv.reader(lines)
    begins = 1
    for cells in _cells(path, reader):
        line, begins = begins, reader.line_num + 1
        if not any(cell.strip() for cell in cells):
            continue
        if not columns:
            columns += [cell.strip() for cell in cells]
        elif len(cells) != len(columns):
            problems.append(Problem(f"{len(cells)} cells; the header has {len(columns)}", "", str(path), line))
        else:
            record = lines[line - 1 : reader.line_num]
            rows.append(Row(dict(zip(columns, cells, strict=True)), str(path), line, record, table.used))
    if not rows and not problems:
        raise UsageError(f"{path}:1: holds {'no rows below its header' if columns else 'nothing'}")
    return table


def _cells(path: Path, reader: Any) -> Iterator[list[str]]:
    """Yield the cells of each row; invalid CSV, such as a huge cell, is an error at its line."""
    try:
        yield from reader
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: not a table of comma-separated values: {error}") from None


def _places(record: Sequence[str], line: int) -> Iterator[tuple[int, int]]:
    """Line and column where each cell of a record begins, both counted from 1."""
    yield line, 1
    state = "start"  # of the cell; quotes count at its start only, and two of them within a quoted one are a character
    for number, text in enumerate(record, start=line):
        for column, character in enumerate(text, start=1):
            if state == "quoted":
                state = "closing" if character == '"' else "quoted"
            elif character == '"' and state in ("start", "closing"):
                state = "quoted"
            elif character == ",":
                state = "start"
                yield number, column + 1
            else:
                state = "plain"


def _whole(text: str) -> int:
    """Return a whole number.

    Raises:
        ValueError: It is not a whole number, or is larger than `MOST`.
    """
    number = int(text) if text.isdecimal() else float(text)
    if abs(number) > MOST or number != int(number):
        raise ValueError(text)
    return int(number)


def _nearest(text: str) -> int:
    """Return a positive number rounded to a whole number, at least 1; 0 for other numbers."""
    number = float(text)
    return max(1, round(number)) if 0 < number <= MOST else 0
