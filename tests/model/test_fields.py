"""Checked values out of mappings that people write."""

from __future__ import annotations

import pytest

from simsys.errors import ConfigError
from simsys.model.fields import LARGEST, Fields, shown


def test_keys_that_were_asked_for_are_remembered() -> None:
    fields = Fields({"a": 1, "b": "x", "c": True, "d": {"e": 1}, "f": [1], "g": ["x"], "h": 2.5, "i": None})
    assert (fields.integer("a"), fields.text("b"), fields.flag("c", False), fields.number("h")) == (1, "x", True, 2.5)
    assert fields.child("d").integer("e") == 1
    assert (fields.integers("f"), fields.texts("g"), fields.integers("missing"), fields.texts("i")) == (
        [1],
        ["x"],
        [],
        [],
    )
    assert fields.used == {"a", "b", "c", "d", "f", "g", "h", "i", "missing"}
    assert "j" not in fields
    assert "j" in fields.used


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (11, "size: must be at most 10, not 11"),
        (1e99, r"size: must be at most 10, not int 999,999"),
        (1e300, r"size: expected a number of at most 1e\+100, got 1e\+300"),
        (10**200, r"size: expected a number of at most 1e\+100, got one of 201 digits"),
        (-(10**200), "got one of 201 digits"),
        (float("inf"), "expected a finite number"),
        ([10**200], "expected a number, got"),
    ],
)
def test_sizes_are_within_reason(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Fields({"size": value}).integer("size", maximum=10)


@pytest.mark.parametrize("value", ["x", [1.5], [None], {}, 3, ["1"], [True]])
def test_a_list_of_integers_holds_nothing_else(value: object) -> None:
    with pytest.raises(ConfigError, match="layers: expected a list of integers, got"):
        Fields({"layers": value}).integers("layers")


@pytest.mark.parametrize("value", ["x", [1], [None], {}, 3])
def test_a_list_of_strings_holds_nothing_else(value: object) -> None:
    with pytest.raises(ConfigError, match="names: expected a list of strings, got"):
        Fields({"names": value}).texts("names")


def test_long_values_are_shortened() -> None:
    assert shown("x" * 50) == f"str '{'x' * 35}…"
    assert shown(10**150) == "a number of 151 digits"
    assert shown(int(LARGEST) - 1).startswith("int ")
