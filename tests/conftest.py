"""Hypothesis: no deadlines, since a loaded machine is no failure; the same examples every time in CI.

Tests that state no number of examples draw a part of Hypothesis' own number, and all of it in `make test-all`.
"""

from __future__ import annotations

import builtins
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.helpers.case_counts import case_counts, mark_further_cases
from tests.helpers.quick import mark_quick
from tests.helpers.thorough import cases

ROOT = Path(__file__).resolve().parents[1]
OURS = tuple(str(ROOT / name) + os.sep for name in ("simsys", "frameworks"))

settings.register_profile("simsys", deadline=None, max_examples=cases(100), derandomize=bool(os.environ.get("CI")))
settings.load_profile("simsys")


@pytest.fixture(scope="session", autouse=True)
def floats_are_added_in_order() -> Iterator[None]:
    """Refuse `sum` of floats in simsys and its modules: since Python 3.12 it compensates, so bytes would differ."""
    built_in = builtins.sum

    def checked(*arguments: Any, **named: Any) -> Any:
        result = built_in(*arguments, **named)
        if isinstance(result, float) and (caller := sys._getframe(1).f_code.co_filename).startswith(OURS):
            raise AssertionError(f"{caller}: sum() of floats depends on the Python version; use ordered_sum")
        return result

    builtins.sum = checked
    yield
    builtins.sum = built_in


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark further cases as slow, then quick tests."""
    mark_further_cases(items, case_counts())
    mark_quick(items)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end: garbage collections need not look at them each time."""
    _keep_what_is_there()


@pytest.fixture(scope="module")
def what_others_left_is_kept() -> None:
    """For measurements in this process, each of which begins with a garbage collection."""
    _keep_what_is_there()


def _keep_what_is_there() -> None:
    gc.collect()
    gc.freeze()
