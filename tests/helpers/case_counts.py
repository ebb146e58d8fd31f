"""How many cases of a test function run by default: as many as fit into half a second; all in `make test-all`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest

COUNTS = Path(__file__).parent / "case_counts.txt"
"""Test functions of which not all cases run by default; `scripts/make_case_counts.py` measures them."""


def case_counts() -> dict[str, int]:
    """The number of cases that run by default, by function; functions that are not in the file run all."""
    lines = [line for line in COUNTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: int(count) for name, count in (line.split() for line in lines if line)}


def function_path(item: pytest.Item) -> str:
    """The path of the test function that an item is a case of."""
    return item.nodeid.partition("[")[0]


def mark_further_cases(items: Sequence[pytest.Item], counts: Mapping[str, int]) -> None:
    """Mark cases as slow that are more than their function has by default.

    The first and the last case stay. The others are chosen by the digests of their names, so that the choice is the
    same everywhere and does not fall into step with a product of parameters.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases.setdefault(function_path(item), []).append(item)
    for name, each in cases.items():
        inner = sorted(each[1:-1], key=lambda item: crc32(item.nodeid.encode()))
        for item in inner[max(0, counts.get(name, len(each)) - 2) :]:
            item.add_marker("slow")
