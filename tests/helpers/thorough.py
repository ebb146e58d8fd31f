"""How many random cases a test plays: a part of them by default, all in `make test-all`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("SIMSYS_THOROUGH"))


def cases(count: int, part: int = 8) -> int:
    """So many random cases, or one of `part`, which is larger where a case takes long."""
    return count if THOROUGH else max(1, count // part)


def every_second(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of some values, for `pytest.mark.parametrize`; every second combination is slow.

    Each value is in a combination that is not slow; with three axes, so is each pair of values.
    """
    found = []
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        values = (axis[place] for axis, place in zip(axes, places, strict=True))
        found.append(pytest.param(*values, marks=pytest.mark.slow if sum(places) % 2 else ()))
    return found
