"""Conclusions follow from the numbers."""

from __future__ import annotations

from typing import Any

from simsys.level_study.conclusion import conclude


def row(name: str, error: float, speedup: float = 200.0) -> dict[str, Any]:
    return {"name": name, "largest_difference": error, "cpu_speedup": speedup, "event_reduction": 10 * speedup}


def text(*rows: dict[str, Any], **more: Any) -> str:
    return "\n".join(conclude({"scenarios": rows, **more}))


def test_scenarios_are_sorted_by_how_far_they_can_be_trusted() -> None:
    found = text(row("same", 0.0), row("quiet", 1e-9), row("near", 0.004), row("far", 0.02), row("wrong", 0.2))
    assert "no more than rounding in same, quiet: " in found
    assert "within 0.4 % in near: safe for sizing" in found
    assert "within 2.0 % in far: safe for ranking designs" in found
    assert "up to 20.0 % off in wrong: not safe" in found


def test_what_does_not_occur_is_not_said() -> None:
    found = text(row("wrong", 0.2))
    assert "rounding" not in found
    assert "capacity planning" not in found
    assert "not safe" in found
    assert "200 times less CPU time" in found


def test_the_fastest_and_the_slowest_are_named() -> None:
    assert "between 50.0 (slow) and 300 (fast)" in text(row("slow", 0.0, 50.0), row("fast", 0.0, 300.0))


def test_abstractions_are_told_by_their_gains_and_errors() -> None:
    def variant(name: str, gain: float, error: float) -> dict[str, Any]:
        return {"variant": name, "cpu_speedup": gain, "largest_difference": error}

    attribution = [
        {"variants": [variant("high", 1.0, 0.0), variant("macro operations", 2.0, 0.0), variant("both", 40.0, 0.03)]},
        {"variants": [variant("high", 1.0, 0.0), variant("macro operations", 3.0, 0.0), variant("both", 30.0, 0.0)]},
    ]
    found = text(row("a", 0.0), attribution=attribution)
    assert "macro operations 2.00 to 3.00; both 30.0 to 40.0" in found
    assert "Errors come with: both 3.0 %" in found


def test_where_the_time_goes_is_told_of_both_levels() -> None:
    def shares(high: dict[str, float], medium: dict[str, float]) -> dict[str, Any]:
        return {"levels": {"high": {"shares": high}, "medium": {"shares": medium}}}

    breakdown = [shares({"SimPy": 0.6, "a": 0.4}, {"b": 1.0}), shares({"SimPy": 0.2, "a": 0.8}, {"b": 0.5, "a": 0.5})]
    found = text(row("chat", 0.0), breakdown=breakdown)
    assert "spent at high in a (60 %), SimPy (40 %); at medium in b (75 %), a (25 %)" in found


def test_nothing_compared_nothing_concluded() -> None:
    assert conclude({"scenarios": []}) == []
