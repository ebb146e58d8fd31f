"""A row says why it is slow or off, with its own numbers."""

from __future__ import annotations

from typing import Any

from simsys.level_study.reasons import reasons


def row(**changes: Any) -> dict[str, Any]:
    """A thousand times fewer events, each ten times as dear."""
    high = {"median_cpu_s": 10.0, "events": 10_000_000, "steps": 0}
    medium = {
        "median_cpu_s": 0.1,
        "events": 10_000,
        "steps": 100_000,
        "contention": "none (idle links)",
        "simulated_ranks": 1,
        "ranks": 4,
    }
    return {
        "kind": "serving",
        "unit": "requests",
        "drawn": True,
        "cpu_speedup": 100.0,
        "event_reduction": 1000.0,
        "least_cpu_s": 0.01,
        "differences": {"mean_ttft_ms": 0.0},
        "largest_difference": 0.0,
        "levels": {"high": high, "medium": {**medium, **changes.pop("medium", {})}},
        **changes,
    }


def test_what_is_fast_and_exact_needs_no_reason() -> None:
    assert reasons(row()) == []


def test_short_runs_are_mostly_what_runs_of_any_length_take() -> None:
    (text,) = reasons(row(cpu_speedup=50.0, least_cpu_s=0.08))
    assert "of medium's 100 ms, 80 ms are" in text
    assert "more requests raise the ratio" in text
    (text,) = reasons(row(cpu_speedup=50.0, least_cpu_s=0.11))  # measured apart, on a machine that others share
    assert "of medium's 100 ms, nearly all is building" in text


def test_events_of_medium_are_dearer() -> None:
    (text,) = reasons(row(cpu_speedup=50.0))
    assert text.startswith("1,000 times fewer events, each 10.0 times as dear: 10 us")


def test_steps_that_are_events_of_their_own_are_told() -> None:
    first, _ = reasons(row(cpu_speedup=50.0, medium={"events": 120_000}))
    assert "1.2 events per step" in first


def test_ranks_that_cannot_be_folded_are_told() -> None:
    (text,) = reasons(row(kind="training", medium={"simulated_ranks": 4}))
    assert "each of the 4" in text
    assert reasons(row(kind="training", medium={"simulated_ranks": 1, "ranks": 1})) == []


def test_differences_come_from_links_that_are_shared() -> None:
    off = {"differences": {"mean_ttft_ms": 1e-3, "mean_tpot_ms": -0.0412}, "largest_difference": 0.0412}
    (idle,) = reasons(row(**off))
    assert idle.startswith("mean_tpot_ms is 4.1 % off")
    assert "idle links" in idle
    (met,) = reasons(row(**off, medium={"contention": "fair (max-min), none met"}))
    assert "too briefly to count" in met
    (carried,) = reasons(row(**off, medium={"contention": "fair (max-min)"}))
    assert "both levels carry transfers out" in carried
    (occupied,) = reasons(row(**off, medium={"contention": "occupied links (max-min rates)"}))
    assert "mean rates" in occupied


def test_a_workload_without_randomness_is_told() -> None:
    (text,) = reasons(row(drawn=False))
    assert "another seed changes nothing" in text
