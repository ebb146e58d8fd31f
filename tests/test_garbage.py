"""Garbage is collected less often in processes that only simulate."""

from __future__ import annotations

import gc

import pytest

from simsys.garbage import ALLOCATIONS, collect_rarely


@pytest.mark.parametrize(("before", "after"), [(700, ALLOCATIONS), (ALLOCATIONS + 1, ALLOCATIONS + 1), (0, 0)])
def test_garbage_is_collected_rarely_but_never_more_often(before: int, after: int) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(before)
        collect_rarely()
        assert gc.get_threshold()[0] == after
    finally:
        gc.set_threshold(*thresholds)
