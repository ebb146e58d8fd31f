"""Sides: their runs and means."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.comparisons.side import Side, simulated
from simsys.comparisons.sources import read_sides
from simsys.errors import InfeasibleError
from tests.helpers.compare_toys import SERVING, training_side, written


def test_numbers_are_means_over_runs() -> None:
    runs = [{"a": 1, "b": None, "c": "text"}, {"a": 2, "b": 3.0, "c": "other"}]
    assert Side("x", "serving", "scenario", "x", runs=runs).metrics == {"a": 1.5, "b": None, "c": "text"}


def test_results_are_not_simulated() -> None:
    side = training_side()
    assert simulated(side, 1, 0) is side


def test_runs_have_consecutive_seeds(tmp_path: Path) -> None:
    side = read_sides([written(tmp_path / "a.yaml", SERVING)] * 2)[0]
    several = simulated(side, 3, 42)
    assert several.runs[0] == simulated(side, 1, 0).runs[0]  # 42 is the seed of the scenario
    assert len({run["mean_ttft_ms"] for run in several.runs}) == 3
    assert several.runs[1] == simulated(side, 2, 42).runs[1]


def test_what_does_not_fit_in_the_simulation_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = read_sides([written(tmp_path / "a.yaml", SERVING)] * 2)[0]

    def fails(*_: object, **__: object) -> None:
        raise InfeasibleError("no room")

    monkeypatch.setattr("simsys.report.outcome.simulate", fails)
    with pytest.raises(InfeasibleError, match=r"chat: does not fit: .*a\.yaml:5:9: model.name: no room"):
        simulated(side, 1, 0)
