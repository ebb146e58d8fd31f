"""Scenarios compared one after another."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from comparison_toys import SETTINGS, jobs, serving, training

from simsys.comparison.estimate import Estimate, estimate
from simsys.comparison.study import machine, study


def test_everything_is_data() -> None:
    told: list[str] = []
    data = study([serving(), training(), jobs()], SETTINGS, attribution=True, profile=True, told=told.append)
    assert json.loads(json.dumps(data, allow_nan=False))["scenarios"]
    assert [row["name"] for row in data["scenarios"]] == ["chat", "small", "shared"]
    assert [each["name"] for each in data["attribution"]] == ["chat", "small"]
    assert [each["name"] for each in data["breakdown"]] == ["chat", "small", "shared"]
    assert data["conclusion"]
    assert told[0] == "chat: both levels"
    assert len(told) == 8


def test_only_what_is_asked_for_is_looked_at() -> None:
    assert {"attribution", "breakdown"}.isdisjoint(study([serving()], SETTINGS))


def test_what_cannot_be_compared_does_not_stop_the_others() -> None:
    nobody = serving(name="nobody", workload={"num_requests": None, "duration": "1 us"})
    data = study([nobody, serving()], SETTINGS)
    assert [(each["name"], each["exit_code"]) for each in data["refused"]] == [("nobody", 2)]
    assert [row["name"] for row in data["scenarios"]] == ["chat"]


def test_what_is_compared_in_part_is_not_looked_at_further() -> None:
    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        return Estimate(1e8, 100.0) if function is estimate else function(*args)

    data = study([serving()], replace(SETTINGS, part=True, call=call), attribution=True, profile=True)
    assert data["scenarios"][0]["whole"]["amount"] == 5
    assert data["attribution"] == data["breakdown"] == []


def test_the_machine_is_named_without_its_owner() -> None:
    assert set(machine()) == {"cpus", "architecture", "system", "python", "simpy", "simsys"}
