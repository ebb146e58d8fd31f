"""Hypothesis: no deadlines, since a loaded machine is no failure; the same examples every time in CI."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("simsys", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("simsys")
