"""Tables of comma-separated values with a line of headings, whose problems are reported at their lines."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from simsys.config.document import MAX_BYTES, KeyPath, Mark
from simsys.config.validation import dotted
from simsys.errors import ConfigError, Problem, did_you_mean
from simsys.input_files import ContentError, read_text

Cell = Callable[[str, str], Any]
"""Turns the text of a cell, by its heading, into a value to validate."""


@dataclass(frozen=True)
class CsvTable:
    """The rows of a table as data to validate.

    Args:
        name: The file, for messages.
        data: The list of rows under one key; an empty cell is missing.
        lines: The line of each row.
    """

    name: str
    data: dict[str, Any]
    lines: tuple[int, ...]

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """The line of a row, or the line of the headings for all other paths."""
        if len(path) > 1 and isinstance(path[1], int):
            return Mark(self.name, self.lines[path[1]])
        return Mark(self.name, 1)


@dataclass(frozen=True)
class Headings:
    """The headings of a kind of table.

    Args:
        known: All of them.
        needed: Those that a table must have.
        example: The first line of a table, for messages.
        renamed: Headings that are refused, with the reason.
    """

    known: Sequence[str]
    needed: Sequence[str]
    example: str
    renamed: Callable[[str], str] = lambda name: ""

    def check(self, cells: Sequence[str]) -> None:
        """Raise a `csv.Error` for headings that are unknown or missing."""
        for cell in cells:
            if cell not in self.known:
                raise csv.Error(self.renamed(cell) or f"unknown heading {cell!r}{did_you_mean(cell, self.known)}")
            if cells.count(cell) > 1:
                raise csv.Error(f"heading {cell!r} twice")
        missing = [name for name in self.needed if name not in cells]
        if missing:
            raise csv.Error(f"no column {missing[0]!r}; the first line is such as: {self.example}")


def read_csv_table(path: Path, key: str, headings: Headings, cell: Cell) -> CsvTable:
    """Read a table.

    Args:
        path: The file.
        key: The key of the rows in the data.
        headings: The allowed headings.
        cell: Turns the text of a cell into a value.

    Raises:
        ConfigError: If the file cannot be read or has other headings.
    """
    whole = Mark(str(path))
    try:
        text = read_text(path, MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError([whole.problem("no such file")]) from None
    except OSError as error:
        raise ConfigError([whole.problem(f"cannot be read: {error.strerror or error}")]) from None
    except ValueError as error:
        place = Mark(whole.file, error.line, error.column) if isinstance(error, ContentError) else whole
        raise ConfigError([place.problem(str(error))]) from None
    try:
        rows, lines = _rows(text, headings, cell)
    except csv.Error as error:
        raise ConfigError([Mark(whole.file, 1).problem(f"not a table of comma-separated values: {error}")]) from None
    return CsvTable(str(path), {key: rows}, lines)


def at_setting(error: ConfigError, path: Path, setting: KeyPath) -> ConfigError:
    """The error of a file that cannot be opened, at the setting that names it; the same error for any other file."""
    if os.path.isfile(path):  # unlike Path.is_file, false for invalid names
        return error
    return ConfigError([Problem(f"{each.file!r}: {each.message}", dotted(setting)) for each in error.problems])


def _rows(text: str, known: Headings, value_of: Cell) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """The rows below the headings and the line number of each; an empty cell counts as missing."""
    reader = csv.reader(StringIO(text), skipinitialspace=True, strict=True)
    headings: list[str] = []
    rows, lines = [], []
    for row in reader:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if not headings:
            known.check(cells)
            headings = cells
            continue
        extra = [f"column {number}" for number in range(len(headings) + 1, len(cells) + 1)]
        pairs = zip([*headings, *extra], cells, strict=False)
        rows.append({name: value_of(name, cell) for name, cell in pairs if cell})
        lines.append(reader.line_num)
    return rows, tuple(lines)
