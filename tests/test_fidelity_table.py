"""Tables of measurements that are not as they should be: every problem at its place, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.fidelity.readers import read_cases
from simsys.fidelity.table import read_table


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
    [("", "holds nothing"), ("id,value\n", "holds no rows"), ("\n\n", "holds nothing")],
)
def test_nothing_in_a_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_table(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "bytes.csv")


def test_all_ragged_rows_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table(written(tmp_path, "a,b\n1\n2,3\n4,5,6\n"))
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
    assert "t.csv:4: n: is empty; it needs a whole number from 1" in str(caught.value)


def test_an_empty_cell_may_have_a_default(tmp_path: Path) -> None:
    [row] = read_table(written(tmp_path, "n,x\n,3\n")).rows
    assert row.whole("n", 5) == 5
    assert row.text("no such column") == ""


def test_a_table_of_no_known_kind_says_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no known table of measurements.*training: id, model"):
        read_cases(written(tmp_path, "a,b\n1,2\n"))


def test_a_missing_column_is_named_with_what_looks_like_it(tmp_path: Path) -> None:
    header = "id,model,gpu,gpus,strategy,seq_len,tp,pp,dp,micro_batch,globalbatch,precision,iter_time_s_derived,group"
    with pytest.raises(ConfigError, match=r"t\.csv:1: column 'global_batch' is missing, did you mean 'globalbatch'"):
        read_cases(written(tmp_path, f"{header}\nx{',' * 13}\n"))
