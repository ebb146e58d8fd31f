from __future__ import annotations

from pathlib import Path

import pytest

from simsys.sweeps.shards import MOST, SHARD_S, estimate_s, sample_of, shard_size, shards
from tests.helpers.sweeps import BASE


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 100, 1001])
def test_shards_are_all_points_in_order(count: int) -> None:
    points = list(range(count))
    assert [point for shard in shards(points, 7) for point in shard] == points
    sample = sample_of(points)
    assert sample[0] == 0
    assert len(sample) == min(count, 5)


def test_a_shard_has_seconds_of_work() -> None:
    assert shard_size(0.1) * 0.1 == pytest.approx(SHARD_S)
    assert shard_size(50.0) == 1
    assert shard_size(1e-6) == MOST
    assert 1 < shard_size(None) < MOST


def test_more_work_is_estimated_longer() -> None:
    short = estimate_s(BASE, {}, Path())
    assert estimate_s(BASE, {"simulation.lod": "high", "training.num_iterations": 100}, Path()) > 5 * short
    assert estimate_s(BASE, {"parallelism.tp_degree": 7}, Path()) > 0
