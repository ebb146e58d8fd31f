"""Hypothesis: no deadlines, since a loaded machine is no failure; the same examples every time in CI."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

settings.register_profile("simsys", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("simsys")


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
