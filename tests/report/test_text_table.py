"""Tables as text: as wide as their cells, without trailing blanks, the last column wrapped."""

from __future__ import annotations

from simsys.report.text_table import text_table


def test_columns_are_as_wide_as_their_cells_and_the_last_is_wrapped() -> None:
    found = text_table([["name", "what"], ["longer", "one two three four five six seven"]], 30)
    assert found == ["name    what", "longer  one two three four", "        five six seven"]


def test_cells_are_text_and_no_markup_and_no_column_is_cut() -> None:
    rows = [["[bold]x[/bold]" * 8, ":smile:", "end"]]
    (line,) = text_table(rows, 20)
    assert line == f"{rows[0][0]}  :smile:  end"


def test_no_rows_are_no_lines() -> None:
    assert text_table([]) == []
