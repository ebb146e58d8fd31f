"""Which cases of a test function run by default."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.helpers.case_counts import case_counts, mark_further_cases
from tests.helpers.collected import Case
from tests.helpers.places import ROOT

MOST = 0.9
"""Of the names in the file; it is written anew when it has grown old."""


def kept(cases: list[Case], count: int) -> list[Case]:
    mark_further_cases(cast("list[pytest.Item]", cast(Any, cases)), {"a.py::test_x": count})
    return [each for each in cases if not each.marks]


def test_as_many_cases_stay_as_a_function_has_with_the_first_and_the_last() -> None:
    cases = [Case(f"a.py::test_x[{case}]") for case in range(20)]
    chosen = kept(cases, 5)
    assert len(chosen) == 5
    assert (chosen[0], chosen[-1]) == (cases[0], cases[-1])


def test_functions_that_are_not_listed_keep_all() -> None:
    cases = [Case(f"b.py::test_x[{case}]") for case in range(20)]
    assert kept(cases, 5) == cases


def test_cases_that_are_slow_anyway_do_not_count() -> None:
    cases = [Case(f"a.py::test_x[{case}]", slow=case % 2 == 0) for case in range(20)]
    chosen = [each for each in kept(cases, 4) if not each.slow]
    assert len(chosen) == 4
    assert not any(each.marks for each in cases if each.slow)


def test_the_chosen_cases_have_each_value_of_a_product_of_parameters() -> None:
    cases = [Case(f"a.py::test_x[{one}-{two}]") for one in range(8) for two in range(4)]
    chosen = kept(cases, 8)
    assert {each.nodeid[-2] for each in chosen} == {"0", "1", "2", "3"}


def test_the_functions_of_the_file_exist() -> None:
    counts = case_counts()
    texts = {name.partition("::")[0]: "" for name in counts}
    for name in texts:
        path = ROOT / name
        texts[name] = path.read_text(encoding="utf-8") if path.is_file() else ""
    known = [name for name in counts if f"def {name.rpartition('::')[2]}(" in texts[name.partition("::")[0]]]
    assert len(known) >= MOST * len(counts), "run scripts/make_case_counts.py"
    assert all(count >= 2 for count in counts.values())
