"""Tables of measurements that are not as they should be: every problem at its place, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.fidelity.tables.readers import read_measurements
from simsys.fidelity.tables.reading import check
from simsys.fidelity.tables.table import Row, read_table


def written(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def test_marks_line_ends_empty_lines_and_quoted_line_breaks_do_not_matter(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, '\ufeffid,note\r\n\r\n1,"two\r\nlines"\r\n2,\r\n'))
    assert [row.text("id") for row in table.rows] == ["1", "2"]
    assert [row.line for row in table.rows] == [3, 5]
    assert table.rows[0].text("note") == "two\r\nlines"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds nothing"), ("id,value\n", ":1: holds no rows"), ("\n\n", "holds nothing")],
)
def test_nothing_in_a_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_table(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(UsageError, match=r"bytes\.csv:1:1: this is not UTF-8 text"):
        read_table(tmp_path / "bytes.csv")


def test_all_ragged_rows_are_named(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b\n1\n2,3\n4,5,6\n"))
    assert [row.text("a") for row in table.rows] == ["2"]
    with pytest.raises(ConfigError) as caught:
        table.check()
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (2, "1 cells; the header has 2"),
        (4, "3 cells; the header has 2"),
    ]


def test_numbers_are_checked_and_all_problems_told_at_once(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "n,x\n-1,0\n2.5,nan\n,inf\n7,1e3\n"))
    for row in table.rows:
        row.whole("n")
        row.number("x")
    with pytest.raises(ConfigError) as caught:
        table.check()
    found = {(problem.line, problem.path) for problem in caught.value.problems}
    assert found == {(line, column) for line in (2, 3, 4) for column in ("n", "x")}
    assert "t.csv:4:1: n: is empty; it needs a whole number from 1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a,b,n\n1,2,x\n", (2, 5)),
        ('a,b,n\n1,"2,3",x\n', (2, 9)),
        ('a,b,n\n1,"2 ""and"" 3",x\n', (2, 17)),
        ('a,b,n\r\n1,"two\r\nlines",x\r\n', (3, 8)),
        ("\ufeffa,b,n\n\n1,2,x\n", (3, 5)),
        ("a,b\n1,2\n", (2, 0)),
    ],
)
def test_the_place_of_a_cell_is_its_line_and_column(tmp_path: Path, text: str, place: tuple[int, int]) -> None:
    [row] = read_table(written(tmp_path, text)).rows
    row.whole("n")
    [problem] = row.problems
    assert (problem.line, problem.column) == place


def test_a_cell_that_is_asked_for_twice_is_one_problem(tmp_path: Path) -> None:
    [row] = read_table(written(tmp_path, "n\nx\n")).rows
    assert row.whole("n") == row.whole("n") == 1
    assert len(row.problems) == 1


@pytest.mark.parametrize(("text", "whole", "length"), [("8.0", 8, 8), ("652.5", None, 652), ("0.2", None, 1)])
def test_whole_numbers_may_be_written_as_floats_and_lengths_may_be_means(
    tmp_path: Path, text: str, whole: int | None, length: int
) -> None:
    """Spreadsheets write 8.0; a table of means has 652.5 tokens, of which 0.5 are nothing."""
    [row] = read_table(written(tmp_path, f"n\n{text}\n")).rows
    assert row.length("n") == length
    assert not row.problems
    if whole is not None:
        assert row.whole("n") == whole
    else:
        row.whole("n")
        assert row.problems


@pytest.mark.parametrize("text", ["0", "-4", "nan", "inf", "long"])
def test_what_is_no_length_is_refused(tmp_path: Path, text: str) -> None:
    [row] = read_table(written(tmp_path, f"n\n{text}\n")).rows
    row.length("n")
    assert [problem.message for problem in row.problems] == [f"{text!r} is not a number of tokens from 1"]


COLLECTIVES = "id,system,gpus,nodes,collective,bytes,time_us"
GOOD = "a,DGX A100,8,1,all_reduce,1048576,60"


@pytest.mark.parametrize("gpus", ["1e308", "9007199254740993", "inf", "nan"])
def test_numbers_that_no_amount_can_be_are_refused(tmp_path: Path, gpus: str) -> None:
    text = f"{COLLECTIVES}\n{GOOD}\nb,DGX A100,{gpus},1,all_reduce,1,2\n"
    reading = read_measurements(written(tmp_path, text))
    assert [(problem.line, problem.path) for problem in reading.problems] == [(3, "gpus")]


def test_lengths_that_no_text_has_are_refused() -> None:
    row = Row({"seq_len": "1e308"}, "t.csv", 2)
    row.length("seq_len")
    assert [problem.path for problem in row.problems] == ["seq_len"]


def test_rows_that_cannot_be_read_are_left_out_and_the_others_are_not(tmp_path: Path) -> None:
    text = f"{COLLECTIVES}\n{GOOD}\nb,DGX A100,many,1,all_reduce,1,2\nc,DGX A100,8\n{GOOD}\n"
    reading = read_measurements(written(tmp_path, text))
    assert [case.id for case in reading.cases] == ["a"]
    assert [(problem.line, problem.column, problem.path) for problem in reading.problems] == [
        (3, 12, "gpus"),
        (4, 0, ""),
        (5, 1, "id"),
    ]
    assert reading.problems[2].message == "'a' is in line 2 already"
    with pytest.raises(ConfigError, match=r"t\.csv:3:12: gpus: 'many' is not a whole number from 1"):
        check([reading])


def test_a_table_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t\.csv:2:12: gpus"):
        read_measurements(written(tmp_path, f"{COLLECTIVES}\nb,DGX A100,many,1,all_reduce,1,2\n"))


def test_columns_that_are_not_used_are_named_once(tmp_path: Path) -> None:
    text = f"{COLLECTIVES},weather,notes\n{GOOD},rain,x\n{GOOD.replace('a', 'b', 1)},sun,y\n"
    reading = read_measurements(written(tmp_path, text))
    unused, repeated = reading.warnings
    assert unused == f"{tmp_path / 't.csv'}: columns that are not used: weather"
    assert repeated.endswith("rows that repeat the measurement of an earlier row and do not count: 1")
    assert [case.id for case in reading.cases] == ["a"]


def test_an_empty_cell_may_have_a_default(tmp_path: Path) -> None:
    [row] = read_table(written(tmp_path, "n,x\n,3\n")).rows
    assert row.whole("n", 5) == 5
    assert row.text("no such column") == ""


def test_a_table_of_no_known_kind_says_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no known table of measurements.*training: id, model"):
        read_measurements(written(tmp_path, "a,b\n1,2\n"))


def test_a_missing_column_is_named_with_what_looks_like_it(tmp_path: Path) -> None:
    header = "id,model,gpu,gpus,strategy,seq_len,tp,pp,dp,micro_batch,globalbatch,precision,iter_time_s_derived,group"
    with pytest.raises(ConfigError, match=r"t\.csv:1: column 'global_batch' is missing, did you mean 'globalbatch'"):
        read_measurements(written(tmp_path, f"{header}\nx{',' * 13}\n"))


@pytest.mark.parametrize("text", ["5e-324", "1e300", "inf", "nan", "-1", "0", "x"])
def test_a_number_that_nobody_measured_is_a_problem_of_its_cell(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"id,value\na,{text}\n")
    table = read_table(file)
    table.rows[0].number("value")
    assert [str(each) for each in table.all_problems] == [f"{file}:2:3: value: {text!r} is not a number above 0"]


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ('5",x', 4),
        ('"5",x', 5),
        ('"a,""b",x', 9),
        ('"a"b",x', 7),
        ('a""b,x', 6),
    ],
)
def test_quotes_within_a_cell_do_not_move_the_place_of_the_next(tmp_path: Path, cells: str, column: int) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"id,value\n{cells}\n")
    table = read_table(file)
    table.rows[0].number("value")
    assert str(table.all_problems[0]).startswith(f"{file}:2:{column}: value: 'x' is not")
