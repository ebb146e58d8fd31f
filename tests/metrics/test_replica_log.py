"""What is noted of replicas: transfers added up, GPU-seconds as an area."""

from __future__ import annotations

import pytest

from simsys.metrics.replica_log import ReplicaLog


def test_without_transfers_and_changes_there_is_nothing_to_tell() -> None:
    log = ReplicaLog(8)
    assert log.metrics(10.0) == {}
    assert log.columns() == {}


def test_transfers_are_added_up() -> None:
    log = ReplicaLog()
    log.transferred(0.25, 100.0)
    log.transferred(0.75, 300.0)
    assert log.metrics(10.0) == {"kv_transferred_bytes": 400.0, "mean_kv_transfer_ms": 500.0}


@pytest.mark.parametrize(("end_s", "area"), [(10.0, 5 + 3 * 2 + 2 * 3), (7.0, 5 + 2 * 2), (3.0, 3.0), (0.0, 0.0)])
def test_what_is_paid_for_counts_until_the_end(end_s: float, area: float) -> None:
    log = ReplicaLog(gpus_per_replica=4)
    for active, paid, now_s in ((1, 1, 0.0), (1, 2, 5.0), (2, 2, 6.0), (2, 3, 8.0)):
        log.scaled(active, paid, now_s)
    assert log.gpu_seconds(end_s) == pytest.approx(4 * area)
    assert log.metrics(end_s) == {"gpu_seconds": log.gpu_seconds(end_s)}


def test_of_changes_at_one_moment_the_last_is_kept() -> None:
    log = ReplicaLog()
    for active, paid, now_s in ((1, 1, 0.0), (3, 3, 2.0), (2, 2, 2.0), (1, 1, 2.0)):
        log.scaled(active, paid, now_s)
    assert log.columns() == {"time_s": [0.0, 2.0], "active": [1, 1], "paid": [1, 1]}
