"""Many cases in one test: all of them run, and a failure names its case."""

from __future__ import annotations

import inspect

import pytest

from tests.helpers.each_case import each_case
from tests.helpers.thorough import every_second


def test_every_case_runs_and_only_its_arguments_are_given() -> None:
    seen: list[tuple[int, str, int]] = []

    @each_case("first", [1, 2])
    @each_case(("second", "third"), [("a", 3), ("b", 4)])
    def test(first: int, second: str, third: int, fourth: bool) -> None:
        seen.append((first, second, third))

    assert list(inspect.signature(test).parameters) == ["fourth"]
    test(fourth=True)
    assert seen == [(1, "a", 3), (1, "b", 4), (2, "a", 3), (2, "b", 4)]


def test_a_failure_names_its_case() -> None:
    @each_case("number", [1, 2, 3])
    def test(number: int) -> None:
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        test()
    assert caught.value.__notes__ == ["in the case {'number': 2}"]


def test_every_second_combination_has_each_pair_of_values() -> None:
    chosen = [tuple(each.values) for each in every_second("ab", "cde", "fg") if not each.marks]
    assert len(chosen) == 6
    assert {pair[:2] for pair in chosen} == {(x, y) for x in "ab" for y in "cde"}
    assert {pair[1:] for pair in chosen} == {(x, y) for x in "cde" for y in "fg"}
