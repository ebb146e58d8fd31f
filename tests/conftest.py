"""Hypothesis: no deadlines, since a loaded machine is no failure; the same examples every time in CI."""

from __future__ import annotations

import gc
import os

from hypothesis import settings

settings.register_profile("simsys", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("simsys")


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end: garbage collections need not look at them each time."""
    gc.collect()
    gc.freeze()
