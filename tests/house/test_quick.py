"""What `-m quick` selects."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from tests.helpers.collected import Case
from tests.helpers.places import ROOT
from tests.helpers.quick import long_tests, mark_quick, representatives

MOST = 0.9
"""Of the names in the file; it is written anew when it has grown old."""


def items(*cases: Case) -> list[pytest.Item]:
    return cast(Any, list(cases))


def test_the_first_and_the_last_case_stand_for_a_function() -> None:
    cases = [Case(f"tests/a.py::test_x[{case}]") for case in range(4)]
    other, alone = Case("tests/b.py::test_x[0]"), Case("tests/a.py::test_y")
    assert representatives(items(*cases, other, alone)) == [cases[0], cases[3], other, alone]


def test_slow_cases_stand_for_nothing() -> None:
    cases = [Case("a.py::test_x[0]", slow=True), Case("a.py::test_x[1]"), Case("a.py::test_x[2]", slow=True)]
    assert representatives(items(*cases)) == [cases[1]]


def test_functions_that_take_long_are_not_quick() -> None:
    long, short = Case(f"a.py::{min(long_tests())}[0]"), Case("a.py::test_x[0]")
    mark_quick(items(long, short))
    assert (long.marks, short.marks) == ([], ["quick"])


def test_the_functions_that_take_long_exist() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    functions = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    long = {name for name in long_tests() if name.startswith("test_")}
    assert len(long & functions) > MOST * len(long), "run scripts/make_long_tests.py"
    assert 2 * len(long) < len(functions), "most tests are quick"
