"""Blocks of sequences that grow by a mean number of tokens: the sums over steps, whatever is looked at together."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

import simsys.metrics.mean_growth
from simsys.metrics.mean_growth import not_yet_grown
from simsys.metrics.step_log import StepLog
from simsys.serving.engine_log import EngineLog
from simsys.serving.kv_cache import PagedKVCache

RUNS = [(0, 5, -3, 40, 13, 16), (5, 2, 0, 0, 31, 16), (7, 9, -40, 100, 64, 16)]
"""First step, steps, blocks before tokens, units before, units of each step, and units of a block."""


@pytest.mark.parametrize("together", [1, 6, 1 << 18])
def test_a_block_waits_for_the_step_that_takes_it(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simsys.metrics.mean_growth, "STEPS", together)
    log, steps = EngineLog(PagedKVCache(1000, 16)), StepLog()
    log.fresh_mean_growth = [number for run in RUNS for number in run]
    expected, times_s, now_s = [], [], 1.0
    for _, count, least, units, more, per_block in RUNS:
        first_s, grown_s = 0.25, 0.125
        steps.add(0, (now_s, count, 4, 0, first_s, grown_s))
        taken = [max(0, least + ceil((units + more * step) / per_block)) for step in range(count + 1)]
        lengths_s = [first_s + grown_s * place for place in range(count)]
        waits = [(taken[-1] - after) * length_s for after, length_s in zip(taken[1:], lengths_s, strict=True)]
        expected.append(sum(waits))
        times_s.append(now_s)
        now_s += sum(lengths_s)
    found = not_yet_grown(np.array(times_s), log, steps, 0)
    assert list(found) == pytest.approx(expected, rel=1e-12)
    assert min(expected) > 0.0
