"""Which tests are quick: of every test function its first and its last case, unless a case is known to take long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

LONG = Path(__file__).parent / "long_tests.txt"
"""Names of the test functions that take long, one a line; `scripts/make_long_tests.py` measures them."""


def long_tests() -> set[str]:
    """The names of the test functions that are not quick, wherever these lie."""
    return {line for line in LONG.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}


NEVER = ("slow", "perfetto", "hta", "lab")
"""Marks of tests that `-m quick` must not bring back, since it replaces the usual choice by marks."""


def function_of(item: pytest.Item) -> str:
    """The name of the test function that an item is a case of; of an example in a docstring, its own."""
    return item.name.partition("[")[0]


def representatives(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The first and the last case of every test function, without marks of `NEVER`."""
    first, last = {}, {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in NEVER):
            function = item.nodeid.partition("[")[0]
            first.setdefault(function, item)
            last[function] = item
    return list(
        {item.nodeid: item for pair in zip(first.values(), last.values(), strict=True) for item in pair}.values()
    )


def mark_quick(items: Sequence[pytest.Item]) -> None:
    """Mark what `-m quick` selects."""
    known = long_tests()
    for item in representatives(items):
        if function_of(item) not in known:
            item.add_marker("quick")
