"""Tables of measurements as CSV: rows with their lines, and every problem at once."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from simsys.errors import ConfigError, Problem, UsageError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One row.

    Args:
        cells: Text by column.
        file: The file as the user wrote it.
        line: Where it begins, counted from 1.
        problems: Where what is wrong with it is written down.
    """

    cells: Mapping[str, str]
    file: str
    line: int
    problems: list[Problem] = field(repr=False)

    def text(self, column: str) -> str:
        """What stands in a column, without spaces around it; empty if there is no such column."""
        return (self.cells.get(column) or "").strip()

    def whole(self, column: str, default: int | None = None) -> int:
        """A positive whole number; `default` if the cell is empty."""
        return self._number(column, default, int, lambda number: number > 0, "a whole number from 1")

    def number(self, column: str, default: float | None = None) -> float:
        """A positive number; `default` if the cell is empty."""
        return self._number(column, default, float, lambda number: 0 < number < math.inf, "a number above 0")

    def wrong(self, column: str, message: str) -> None:
        """Write down what is wrong in a column."""
        self.problems.append(Problem(message, column, self.file, self.line))

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
        except ValueError:
            pass
        self.wrong(column, f"{text!r} is not {what}" if text else f"is empty; it needs {what}")
        return read("1")  # the row is given up once all its cells are read


@dataclass(frozen=True)
class Table:
    """A CSV file with a header."""

    file: str
    columns: Sequence[str]
    rows: Sequence[Row]
    problems: list[Problem]

    def check(self) -> None:
        """Give up if anything was wrong.

        Raises:
            ConfigError: With all problems, in the order of the file.
        """
        if self.problems:
            raise ConfigError(self.problems)

    def require(self, columns: Iterable[str]) -> None:
        """Check that columns are there.

        Raises:
            ConfigError: Names those that are not.
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

    Raises:
        UsageError: If it cannot be read, or holds no rows.
        ConfigError: If rows have more or fewer cells than the header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    problems: list[Problem] = []
    rows: list[Row] = []
    columns: list[str] = []
    begins = 1
    for cells in reader:
        line, begins = begins, reader.line_num + 1
        if not any(cell.strip() for cell in cells):
            continue
        if not columns:
            columns = [cell.strip() for cell in cells]
        elif len(cells) != len(columns):
            problems.append(Problem(f"{len(cells)} cells; the header has {len(columns)}", "", str(path), line))
        else:
            rows.append(Row(dict(zip(columns, cells, strict=True)), str(path), line, problems))
    if problems:
        raise ConfigError(problems)
    if not rows:
        raise UsageError(f"{path}: holds {'no rows' if columns else 'nothing'}")
    return Table(str(path), columns, rows, problems)
