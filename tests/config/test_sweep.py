from __future__ import annotations

from typing import Any

import pytest

from simsys.config.loader import validate
from simsys.config.sweep import SweepConfig
from simsys.errors import ConfigError

GRID = {"parallelism.tp_degree": [1, 2, 4], "training.num_iterations": "1..4"}


def problems(section: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(section, SweepConfig)
    return str(caught.value)


def test_points_are_counted_without_expanding_them() -> None:
    section = {
        "over": GRID,
        "zip": [{"a.b": [1, 2], "a.c": "1..2"}],
        "sample": {"points": 10, "over": {"d": "1..9 log"}},
        "repeats": 3,
    }
    config = validate(section, SweepConfig)
    assert config.count == 3 * 4 * 2 * 10 * 3
    assert config.paths == [*GRID, "a.b", "a.c", "d"]


def test_an_absurd_space_is_refused_with_its_count() -> None:
    text = problems({"over": {"a": "1..1000000", "b": "1..1000000"}})
    assert "the sweep has 1,000,000,000,000 points, at most 1,000,000 are allowed" in text


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({}, "nothing varies"),
        ({"over": {"a": []}}, "over.a: the list has no values"),
        ({"over": {"a": 4}}, "write a list of values or a range"),
        ({"over": {"a": "4"}}, "write a list of values or a range"),
        ({"over": {"a": "4..1"}}, "is empty"),
        ({"over": {"a": "1..4 log"}}, "interval to draw from"),
        ({"over": {"name": ["a"]}}, "name cannot vary"),
        ({"over": {"a..b": [1]}}, "not the path of a setting"),
        ({"over": {"a": [1]}, "zip": [{"a": [1], "b": [2]}]}, "zip[0].a: a varies twice"),
        ({"over": {"a": [1], "a.b": [2]}}, "one contains the other"),
        ({"zip": [{"a": [1, 2], "b": [1]}]}, "a has 2, b has 1"),
        ({"over": {"simulation.seed": [1, 2]}, "repeats": 2}, "repeats vary the seed"),
        ({"over": {"a": [1]}, "where": "a ** 2"}, "not allowed in a condition"),
        ({"over": {"a": [1]}, "repeats": 0}, "must be above 0"),
        ({"grid": {"a": [1]}, "over": {"b": [1]}}, "did you mean 'over'?"),
    ],
)
def test_a_wrong_section_is_refused(section: dict[str, Any], text: str) -> None:
    assert text in problems(section)


@pytest.mark.parametrize("where", ["a <= 2", ["a <= 2"], ["a <= 2", "a > 0"]])
def test_conditions_are_one_or_a_list(where: Any) -> None:
    config = validate({"over": {"a": [1, 2]}, "where": where}, SweepConfig)
    assert config.conditions == ([where] if isinstance(where, str) else where)


def test_a_section_as_resolved_can_be_read_again() -> None:
    config = validate({"over": GRID}, SweepConfig)
    assert validate(config.model_dump(mode="json"), SweepConfig) == config
