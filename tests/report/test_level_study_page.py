"""The page on levels of detail says what its data say, and is up to date."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from simsys.level_study.attribution import attribute
from simsys.level_study.peers import CONTENDED, LLAMA
from simsys.level_study.study import study
from simsys.report.level_study_page import page_text
from simsys.report.text import WIDTH
from tests.helpers.level_study_toys import SETTINGS, serving
from tests.helpers.places import ROOT

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    found = study([serving(), serving(name=LLAMA), serving(name=CONTENDED)], SETTINGS)
    return {**found, "naive": [attribute(serving(), SETTINGS, 1e-9, ("high", "medium"))]}


def test_tables_are_as_on_a_terminal(data: dict[str, Any]) -> None:
    page = page_text(data, "simsys lod", "plot.svg")
    fenced = page.split("```")[1::2]
    assert fenced
    assert max(len(line) for block in fenced for line in block.split("\n")) <= WIDTH


def test_it_names_its_command_and_its_picture(data: dict[str, Any]) -> None:
    page = page_text(data, "the command", "plot.svg")
    assert "`the command`" in page
    assert "(plot.svg)" in page
    words = " ".join(page.split())
    assert all(text in words for text in data["conclusion"])


def test_others_stand_beside_the_scenarios_that_do_the_same_work(data: dict[str, Any]) -> None:
    lines = page_text(data, "", "").split("\n")
    (ours,) = (line for line in lines if line.startswith("simsys, medium") and "requests per" in line)
    row = next(row for row in data["scenarios"] if row["name"] == LLAMA)
    rates = [5 / cpu_s for cpu_s in row["levels"]["medium"]["cpu_s"]]
    assert float(ours.split()[2].replace(",", "")) == pytest.approx(min(rates), rel=0.01)
    assert any(line.startswith("Vidur") and "405" in line and "422" in line for line in lines)


def test_without_what_is_beside_it_nothing_is_said_of_others() -> None:
    page = page_text(study([serving()], SETTINGS), "", "")
    assert "Other simulators" not in page
    assert "plain SimPy" not in page


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_level_of_detail", ROOT / "scripts" / "make_level_of_detail.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_the_committed_page_is_what_its_data_say(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0
