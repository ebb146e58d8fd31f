"""Distributions of latencies of requests, from the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LEVELS = 200
"""Points of a distribution."""


def latencies_ms(requests: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """TTFT, TPOT and end-to-end latency of the completed requests, in ms."""
    found: dict[str, list[float]] = {"ttft": [], "tpot": [], "e2el": []}
    names = ("arrival_s", "first_token_s", "finished_s", "output_tokens")
    for arrival_s, first_s, finished_s, tokens in zip(*(requests[name] for name in names), strict=True):
        if first_s is None or finished_s is None:
            continue
        found["ttft"].append(1e3 * (first_s - arrival_s))
        found["e2el"].append(1e3 * (finished_s - arrival_s))
        if tokens > 1:
            found["tpot"].append(1e3 * (finished_s - first_s) / (tokens - 1))
    return found


def distribution(values: Sequence[float]) -> list[tuple[float, float]]:
    """Quantiles of sorted values: value and share in percent, at evenly spaced levels."""
    last = len(values) - 1
    places = range(last + 1) if last < LEVELS else (round(last * step / LEVELS) for step in range(LEVELS + 1))
    return [(values[place], 100.0 * (place + 1) / len(values)) for place in places]
