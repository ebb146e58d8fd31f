"""Scenarios compared one after another."""

from __future__ import annotations

import json

import pytest

from simsys.level_study.study import machine, study
from tests.helpers.level_study_toys import SETTINGS, jobs, serving, training

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


def test_everything_is_data() -> None:
    told: list[str] = []
    names, three = ["chat", "shared"], [serving(), training(), jobs()]
    data = study(three, SETTINGS, attribution=names, profile=["small"], told=told.append)
    assert json.loads(json.dumps(data, allow_nan=False))["scenarios"]
    assert [row["name"] for row in data["scenarios"]] == ["chat", "small", "shared"]
    assert [each["name"] for each in data["attribution"]] == ["chat"]
    assert [each["name"] for each in data["breakdown"]] == ["small"]
    assert data["conclusion"]
    assert told[0] == "chat: both levels"
    assert len(told) == 5


def test_only_what_is_asked_for_is_looked_at() -> None:
    assert {"attribution", "breakdown"}.isdisjoint(study([serving()], SETTINGS))


def test_what_cannot_be_compared_does_not_stop_the_others() -> None:
    nobody = serving(name="nobody", workload={"num_requests": None, "duration": "1 us"})
    data = study([nobody, serving()], SETTINGS)
    assert [(each["name"], each["exit_code"]) for each in data["refused"]] == [("nobody", 2)]
    assert [row["name"] for row in data["scenarios"]] == ["chat"]


def test_what_was_found_until_an_interrupt_is_kept() -> None:
    def told(text: str) -> None:
        if text.startswith("second"):
            raise KeyboardInterrupt

    data = study([serving(), serving(name="second")], SETTINGS, profile=["chat"], told=told)
    assert [row["name"] for row in data["scenarios"]] == ["chat"]
    assert data["interrupted"]
    assert data["conclusion"]
    assert "breakdown" not in data


def test_the_machine_is_named_without_its_owner() -> None:
    assert set(machine()) == {"cpus", "architecture", "system", "python", "simpy", "simsys"}
