"""The published figures that come with simsys: each is cited, known and predicted; no threshold on how well."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from simsys.fidelity.predict import predict
from simsys.fidelity.tables.readers import read_measurements, shipped_tables

FAMILIES = {"training", "serving", "collectives"}
TABLES = {path.stem: path for path in shipped_tables()}


def family_of(table: str) -> str:
    """``serving_mi300x`` is a table of serving."""
    return table.partition("_")[0]


def test_there_are_tables_of_all_kinds() -> None:
    assert {family_of(name) for name in TABLES} == FAMILIES
    assert 60 <= sum(len(read_measurements(path).cases) for path in TABLES.values()) <= 500


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_cited_and_can_be_predicted(name: str) -> None:
    with TABLES[name].open(encoding="utf-8", newline="") as file:
        assert all(len(row["source"]) > 20 for row in csv.DictReader(file))
    cases = read_measurements(TABLES[name]).cases
    assert [case.id for case in cases if case.run is None] == []
    assert all(case.family == family_of(name) and case.measured > 0 for case in cases)
    assert len({case.id for case in cases}) == len(cases)


@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_each_kind_is_predicted_within_a_factor_of_two(name: str) -> None:
    [found] = predict(read_measurements(TABLES[name]).cases[:1])
    assert -0.5 < found.error < 1.0


@pytest.mark.slow
def test_all_are_predicted_in_one_command(tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    result = CliRunner().invoke(cli, ["validate", "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["validation"]
    assert {name: found[name]["coverage"] for name in FAMILIES} == dict.fromkeys(FAMILIES, 1.0)
    with out.open(encoding="utf-8", newline="") as file:
        assert {row["status"] for row in csv.DictReader(file)} == {"ok"}
