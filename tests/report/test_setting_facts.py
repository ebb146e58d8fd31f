"""Every setting is described, found by its path, and shown with what it may be."""

from __future__ import annotations

import pytest

from simsys.errors import UnknownNameError
from simsys.report.setting_facts import definitions, setting_facts, setting_names, setting_row


def test_every_setting_has_a_description() -> None:
    without = [
        f"{name}.{key}"
        for name, definition in definitions().items()
        for key, schema in definition.get("properties", {}).items()
        if not schema.get("description")
    ]
    assert without == []


def test_every_setting_can_be_shown() -> None:
    names = setting_names()
    assert len(names) > 300
    for name in names:
        assert setting_row(name)["meaning"]
        assert setting_facts(name)["name"] == name


def test_a_quantity_has_its_unit_and_a_choice_its_values() -> None:
    assert "400 Gb/s" in setting_facts("hardware.nic.bandwidth")["unit"]
    assert setting_facts("simulation.lod")["allowed"] == ["high", "medium"]
    assert setting_facts("simulation.seed")["default"] == "42"
    assert setting_facts("name")["default"] == "experiment"


def test_a_setting_of_several_kinds_is_shown_for_each() -> None:
    rate = setting_facts("workload.arrivals.rate")
    assert {"with kind poisson", "with kind gamma", "with kind constant"} < set(rate)
    assert rate["with kind poisson"]["default"] == "required"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("max_num_seqs", "serving.max_num_seqs"),
        ("nic.bandwidth", "hardware.nic.bandwidth"),
        ("jobs.0.gpus", "jobs.gpus"),
        ("jobs[].training.optimizer", "jobs.training.optimizer"),
    ],
)
def test_a_path_may_be_short_or_have_entries_of_lists(written: str, name: str) -> None:
    assert setting_facts(written)["name"] == name


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [("serving.max_num_seq", "did you mean 'serving.max_num_seqs'"), ("bandwidth", "hardware.nic.bandwidth")],
)
def test_an_unknown_path_is_refused(written: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown setting") as raised:
        setting_facts(written)
    assert suggestion in str(raised.value)
