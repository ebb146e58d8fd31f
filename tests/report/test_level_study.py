"""The levels of detail beside each other as text: complete, and no wider than a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.level_study.study import study
from simsys.report.level_study import (
    attribution_lines,
    blocks,
    breakdown_lines,
    comparison_text,
    cut,
    difference,
    table,
    times,
)
from simsys.report.text import WIDTH
from tests.helpers.level_study_toys import SETTINGS, contended, jobs, serving, training

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    long = serving(name="a-name-that-is-longer-than-any-column-of-a-table-can-be")
    return study([long, training(), jobs()], SETTINGS)


def attributed(*errors: float) -> dict[str, Any]:
    variants = [
        {
            "variant": f"variant {place}",
            "median_cpu_s": 12.5 / (place + 1),
            "cpu_speedup": place + 1.0,
            "events": 1_234_567,
            "event_reduction": 1.0,
            "largest_difference": error,
        }
        for place, error in enumerate(errors)
    ]
    return {"name": "chat", "amount": 100, "unit": "requests", "variants": variants}


def test_no_line_is_too_long(data: dict[str, Any]) -> None:
    both = {**data, "attribution": [attributed(0.0, 0.01)], "breakdown": [broken_down()]}
    lines = comparison_text(both).split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert not any(line != line.rstrip() for line in lines)


def test_speed_and_every_difference_are_in_one_row(data: dict[str, Any]) -> None:
    lines = blocks(data)["speed"]
    (row,) = (line for line in lines if line.startswith("a-name"))
    assert [word.count("x") for word in row.split()[1:4]] == [1, 1, 1]
    assert set(row.split()[4:]) <= {"0", "~0"}
    (heading,) = (line for line in lines if line.startswith("serving "))
    assert all(name in heading for name in ("TTFT", "TPOT", "E2E", "req/s", "tok/s", "done"))
    assert any(line.startswith("shared") for line in lines)


def test_both_levels_stand_below_each_other(data: dict[str, Any]) -> None:
    for name, rows in (("figures", 2), ("cost", 3)):
        lines = blocks(data)[name]
        assert sum(" high " in line for line in lines) == sum(" medium " in line for line in lines) == rows


def test_what_was_compared_in_part_is_told(data: dict[str, Any]) -> None:
    row = data["scenarios"][0]
    whole = {"amount": 4321, **row["levels"]["medium"]}
    text = comparison_text({**data, "scenarios": [{**row, "whole": whole}]})
    assert "high simulates the first 5 of 4,321 requests" in " ".join(text.split())
    assert "4,321 requests" in text


def test_what_was_not_compared_is_told(data: dict[str, Any]) -> None:
    refused = [{"name": "huge", "error": "huge: high would take years", "exit_code": 2}]
    assert "not compared: huge: high would take years" in comparison_text({**data, "refused": refused})


def test_large_differences_are_seen() -> None:
    data = study([contended()], SETTINGS)
    (row,) = (line for line in blocks(data)["speed"] if line.startswith("crossed"))
    assert any(word.startswith(("+", "-")) for word in row.split()[4:])
    assert "why" in comparison_text(data)


def test_attribution_has_a_row_for_each_variant() -> None:
    heading, *rows, empty = attribution_lines(attributed(0.0, 1e-12, 0.046))
    assert heading.startswith("chat (100 requests)")
    assert [row.split()[-1] for row in rows] == ["0", "~0", "4.6"]
    assert "1.23M" in rows[0]
    assert not empty


def broken_down() -> dict[str, Any]:
    shares = {f"simsys.package_{letter}": 0.1 for letter in "abcdefghij"}
    levels = {"high": {"amount": 3, "shares": shares}, "medium": {"amount": 5_000, "shares": {"other": 1.0}}}
    return {"name": "chat", "unit": "requests", "levels": levels}


def test_a_breakdown_names_what_takes_most_and_adds_up_the_rest() -> None:
    heading, first, *rows, rest, _ = breakdown_lines(broken_down())
    assert heading.split() == ["chat", "high", "(3)", "medium", "(5,000)"]
    assert first.split() == ["other", "0.0", "%", "100.0", "%"]
    assert len(rows) == 7
    assert rest.split() == ["the", "rest", "30.0", "%", "0.0", "%"]


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert table([["name", "a"], ["much too long", "1,000"]], 6) == ["name         a", "much …   1,000"]
    assert cut("short", 5) == "short"
    assert (difference(-0.5), times(2.0)) == ("-50", "2.00x")
