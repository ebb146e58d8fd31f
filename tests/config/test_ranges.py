from __future__ import annotations

from typing import Any

import pytest

from simsys.config.ranges import count_of, is_range, parse_range, values_of
from simsys.errors import UsageError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..64 x2", [1, 2, 4, 8, 16, 32, 64]),
        ("1..100 x10", [1, 10, 100]),
        ("1..64 +8", [1, 9, 17, 25, 33, 41, 49, 57]),
        ("1..4", [1, 2, 3, 4]),
        ("5..5", [5]),
        ("0.1..0.5 +0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1..5 x1.5", [1.0, 1.5, 2.25, 3.375]),
        ("2..8 x2 req/s", ["2 req/s", "4 req/s", "8 req/s"]),
        ("0.5..1 +0.25 ms", ["0.5 ms", "0.75 ms", "1 ms"]),
        ("100..300 +100 GB/s", ["100 GB/s", "200 GB/s", "300 GB/s"]),
        ("-2..0", [-2, -1, 0]),
    ],
)
def test_a_range_has_these_values_and_counts_them(text: str, values: list[Any]) -> None:
    assert is_range(text)
    assert list(parse_range(text)) == values
    assert parse_range(text).count == len(values)
    assert [type(value) for value in parse_range(text)] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("4..1", "is empty"),
        ("1..4 x1", "factor is above 1"),
        ("0..4 x2", "starts above 0"),
        ("1..4 +0", "a step is above 0"),
        ("1..4 *2", "is not a range"),
        ("0..4 log", "starts above 0"),
        ("1..1e999 x2", "too large"),
    ],
)
def test_another_form_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_range(text)


def test_a_huge_range_is_counted_without_its_values() -> None:
    assert parse_range("1..1000000000000").count == 10**12
    assert parse_range("1..1e30 x1.001").count == pytest.approx(69112, abs=2)


def test_ranges_inside_a_list_are_expanded() -> None:
    given = ["1..4 x2", 6, "text"]
    assert values_of(given) == [1, 2, 4, 6, "text"]
    assert count_of(given) == 5


def test_an_interval_gives_values_between_its_ends() -> None:
    whole, part, log = parse_range("1..4"), parse_range("1..3 ms"), parse_range("1..100 log s")
    assert [whole.at(share) for share in (0.0, 0.24, 0.26, 0.5, 0.999)] == [1, 1, 2, 3, 4]
    assert part.at(0.25) == "1.5 ms"
    assert log.at(0.5) == "10 s"
