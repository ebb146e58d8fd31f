"""What validation prints and writes: whole tables, no row lost, nothing wider than a terminal."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simsys.errors import OutputError, Problem
from simsys.fidelity.case import Case, Figures, Unsupported
from simsys.fidelity.predict import predict
from simsys.report.validation import COLUMNS, Validation


@dataclass(frozen=True)
class Fixed:
    """A run that finds what it was given."""

    seconds: float

    def figures(self) -> Figures:
        if self.seconds <= 0.0:
            raise Unsupported("no time at all, which is a reason that takes more than one line of a narrow terminal")
        return {"iteration_s": self.seconds}


def case(name: str, seconds: float, measured: float, **more: str) -> Case:
    tags = {"strategy": "DDP", "gpu": "A100", **more}
    return Case(
        name, "training", name[0], "iteration_s", "s", measured, tags, "", "set", Fixed(seconds), "iteration_s", 1.0
    )


CASES = [case("a1", 1.1, 1.0), case("a2", 2.0, 2.0), case("b1", 6.0, 3.0), case("b2", -1.0, 3.0, gpu="H100")]


@pytest.fixture
def found() -> Validation:
    return Validation(predict(CASES))


def test_the_text_fits_a_terminal_and_names_what_is_not_predicted(found: Validation) -> None:
    text = found.text()
    assert max(map(len, text.splitlines())) <= 80
    assert "training: 4 measured values, 75.0 % predicted" in text
    assert "1  no time at all" in text
    assert "by gpu" in text
    assert "by strategy" not in text, "there is only one"
    assert next(line.split() for line in text.splitlines() if line.startswith("  layout")) == [
        *("layout", "1", "3", "1.00", "0.0", "%")
    ]


def test_long_names_stand_whole_above_their_figures() -> None:
    gpus = [f"a GPU in a cluster with a long name, {nodes} nodes" for nodes in (2, 16)]
    text = Validation(predict([case(f"a{i}", 1.1, 1.0, gpu=gpu) for i, gpu in enumerate(gpus)])).text()
    lines = text.splitlines()
    for gpu in gpus:
        assert lines[lines.index(f"  {gpu}") + 1].split()[:2] == ["1", "100%"]


def test_a_row_for_each_measured_value_is_written(found: Validation, tmp_path: Path) -> None:
    [path] = found.write(tmp_path / "deep" / "predictions.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "unsupported"]
    assert [row["error_pct"] for row in rows[:3]] == ["10", "0", "100"]
    assert (rows[3]["predicted"], rows[3]["error_pct"], rows[3]["measured"]) == ("", "", "3")
    assert rows[3]["reason"].startswith("no time at all")


def test_what_cannot_be_written_is_an_error(found: Validation, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file, a folder is needed"):
        found.write(tmp_path / "file" / "predictions.csv")


def test_json_has_all_errors_as_shares(found: Validation) -> None:
    training = found.as_dict()["training"]
    assert training["rows"] == 4
    assert training["coverage"] == 0.75
    assert training["balanced_mape"] == pytest.approx((0.05 + 1.0) / 2)
    assert training["by_group"]["b"]["predicted"] == 1
    assert training["choices"]["layout"]["sets"] == 1
    assert sum(training["unsupported"].values()) == 1


def test_several_processes_find_the_same() -> None:
    assert predict(CASES, jobs=2) == predict(CASES)


def test_few_values_stand_beside_each_other_and_many_do_not(found: Validation) -> None:
    text = found.text()
    assert "  a1 iteration_s                     s        1.00        1.10   +10.0%" in text
    assert "  b2 iteration_s                     s        3.00           -        -" in text
    assert [value["id"] for value in found.as_dict()["training"]["values"]] == ["a1", "a2", "b1", "b2"]
    many = Validation(
        [replace(each, case=replace(each.case, id=str(n))) for n in range(10) for each in predict(CASES)]
    )
    assert "predicted    error" not in many.text()
    assert many.as_dict()["training"]["values"] == []


def test_values_of_single_requests_are_summed_up_only() -> None:
    whole, *single = predict(CASES)
    single = [replace(each, case=replace(each.case, one_of_many=True)) for each in single] * 20
    values = Validation([whole, *single]).as_dict()["training"]["values"]
    assert [value["id"] for value in values] == ["a1"]


def test_warnings_come_first_and_what_is_left_out_last(found: Validation) -> None:
    problems = [Problem("'x' is no number", "n", "t.csv", line, 3) for line in range(2, 40)]
    text = replace(found, problems=problems, warnings=["the file is of another model"]).text()
    assert text.startswith("warning: the file is of another model\n\ntraining: ")
    assert "\n\nleft out (unreadable)\n  t.csv:2:3: n: 'x' is no number\n" in text
    assert text.endswith("  and 8 more; --strict lists all")


def test_a_row_without_a_measured_value_has_no_number_for_it(tmp_path: Path) -> None:
    found = Validation(predict([replace(case("none", 1.0, math.nan), run=None, reason="nothing was measured")]))
    assert "nan" not in found.text().lower()
    assert found.as_dict()["training"]["values"][0]["measured"] is None
    found.write(tmp_path / "v.csv")
    with (tmp_path / "v.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["measured"] == ""
