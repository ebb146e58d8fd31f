"""Head-room of the KV cache: when it counts, and how far a run is beyond it."""

from __future__ import annotations

import pytest

from simsys.metrics.kv_headroom import beyond_headroom, counts_waits


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ttft", "tpot"], True),
        (["p99_ttft"], True),
        (["e2el"], True),
        (["ttft_ms"], True),
        (["tpot", "p99_itl", "attainment"], False),
        ([], False),
    ],
)
def test_only_latencies_with_waits_count(names: list[str], expected: bool) -> None:
    assert counts_waits(names) is expected


def test_a_run_is_beyond_it_by_what_its_fullest_moment_has_too_much() -> None:
    assert beyond_headroom({"max_kv_cache_usage": 0.99}, 0.1) == pytest.approx(0.1)
    assert beyond_headroom({"max_kv_cache_usage": 0.9}, 0.1) == 0.0
    assert beyond_headroom({"max_kv_cache_usage": 1.0}, 0.0) == 0.0
    assert beyond_headroom({}, 0.1) == 0.0
