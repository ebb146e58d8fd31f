"""How full the KV cache may be for an answer that counts on short waits.

A deployment whose KV cache is all but full is close to a cliff: with a little less memory than predicted, or slightly
longer requests, requests wait for room, and the TTFT grows many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

WAITED_FOR = ("ttft", "e2el")
"""Latencies of which the time in the queue is a part."""


def counts_waits(names: Iterable[str]) -> bool:
    """Whether one of some latencies and statistics, such as ``ttft``, ``p99_ttft`` or ``ttft_ms``, includes waits."""
    return any(latency in name.split("_") for name in names for latency in WAITED_FOR)


def beyond_headroom(metrics: Mapping[str, Any], headroom: float) -> float:
    """How far the KV cache is fuller than it may be, relative to the latter; 0 if it is not.

    Args:
        metrics: Metrics of a serving run.
        headroom: Share of the KV cache that is to be free at its fullest moment; less than 1.
    """
    return max(0.0, (metrics.get("max_kv_cache_usage") or 0.0) / (1.0 - headroom) - 1.0) if headroom else 0.0
