"""A table as CSV: a text is never a formula, a number stays one."""

from __future__ import annotations

import ast
import csv
import io
import math
import random
import re
from pathlib import Path

import pytest

import simsys
from simsys.report.csv_table import _BLOCK, write_columns, write_csv


def written(cell: object) -> str:
    file = io.StringIO(newline="")
    write_csv(file, ["a"], [[cell]])
    return list(csv.reader(io.StringIO(file.getvalue(), newline="")))[1][0]


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+2", "-1-2", "@SUM(1)", "\t=1", "-", "-x"])
def test_a_text_that_would_be_a_formula_is_text(text: str) -> None:
    assert written(text) == f"'{text}"


@pytest.mark.parametrize("cell", [-1, -1.5, "-1.5", "+3e5", "-inf", "name", "a=b", "", "1 2 3"])
def test_all_else_stays_as_it_is(cell: object) -> None:
    assert written(cell) == str(cell)


def test_a_carriage_return_does_not_break_the_row() -> None:
    assert [written(text) for text in ("\r=1", "a\r\nb\rc")] == ["'\n=1", "a\nb\nc"]


def test_names_of_columns_are_texts_too() -> None:
    file = io.StringIO()
    write_csv(file, ["=a"], [])
    assert file.getvalue() == "'=a\n"


def test_columns_are_written_as_rows_of_cells_are() -> None:
    """Columns of numbers, of texts, and of both, over several blocks."""
    count = 2 * _BLOCK + 5
    table: dict[str, list[object]] = {
        "number": [place / 7 if place % 3 else None for place in range(count)],
        "text": [f"={place % 11}\r" for place in range(count)],
        "mixed": [place if place % 2 else f"-{place}x" for place in range(count)],
        "=flag": [place % 2 == 0 for place in range(count)],
        "quoted": [("", "a,b", 'c"d', "e\nf", " g", "h")[place % 6] for place in range(count)],
    }
    by_column, by_row = io.StringIO(newline=""), io.StringIO(newline="")
    write_columns(by_column, table)
    write_csv(by_row, table, zip(*table.values(), strict=True))
    assert by_column.getvalue() == by_row.getvalue()


def test_numbers_in_columns_have_the_digits_of_repr() -> None:
    rng = random.Random(1)
    numbers = [rng.choice([-1.0, 1.0, 1.0]) * 10.0 ** rng.uniform(-9.0, 20.0) for _ in range(2000)]
    numbers += [float(rng.randrange(10**15)) / rng.choice([1, 4, 1000]) for _ in range(2000)]
    numbers += [
        0.0,
        -0.0,
        1e-4,
        math.nextafter(1e-4, 0.0),
        1e16,
        math.nextafter(1e16, 0.0),
        math.inf,
        -math.inf,
        math.nan,
    ]
    file = io.StringIO(newline="")
    write_columns(file, {"number": numbers, "or none": [None, *numbers[1:]]})
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))[1:]
    assert [row[0] for row in rows] == list(map(repr, numbers))
    assert [row[1] for row in rows] == ["", *map(repr, numbers[1:])]


@pytest.mark.parametrize("cells", [["", "a", "b,c"], [None, 1, 2.5], ["", None, "x"], [None], []])
def test_a_table_of_one_column_has_no_empty_rows(cells: list[object]) -> None:
    by_column, by_row = io.StringIO(newline=""), io.StringIO(newline="")
    write_columns(by_column, {"only": cells})
    write_csv(by_row, ["only"], ([cell] for cell in cells))
    assert by_column.getvalue() == by_row.getvalue()


def test_tables_are_written_in_no_other_way() -> None:
    root = Path(simsys.__file__).parent
    others = [
        path.name
        for path in root.rglob("*.py")
        if re.search("writer|DictWriter|to_csv", text := path.read_text(encoding="utf-8"))  # parsing takes long
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in {"writer", "DictWriter", "to_csv"}
    ]
    assert set(others) == {"csv_table.py"}
