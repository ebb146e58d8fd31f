"""Errors of ratios of pairs of measured runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from simsys.config.document import read_document
from simsys.config.expected_ratios import OTHER_GPU, SAME
from simsys.data import data_folders
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.ratios import errors_of_ratios, write_errors_of_ratios
from simsys.fidelity.scenario_run import ScenarioRun


def row(measured: float, predicted: float, samples: int = 1, group: str = "g", gpu: str = "A100") -> Prediction:
    scenario: dict[str, Any] = {
        "hardware": {"gpu": gpu, "gpus_per_node": 1},
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": samples, "num_iterations": 1},
    }
    run = ScenarioRun.of(scenario)
    case = Case(f"{group}{samples}{gpu}", "training", group, "iteration_s", "s", measured, run=run, figure="f")
    return Prediction(case, predicted)


def kinds(rows: list[Prediction]) -> dict[str, Any]:
    found = errors_of_ratios(rows)
    return dict(found["training"]["iteration_s"]["kinds"]) if found else {}


def test_errors_that_all_predictions_share_cancel() -> None:
    found = kinds([row(1.0 * each, 1.5 * each, each) for each in range(1, 9)])
    assert found["global batch"] == {
        "pairs": 28,
        "rows": 8,
        "sources": 1,
        "median": 0.0,
        "nine_of_ten": 0.0,
        "median_of_a_value": 0.5,
        "correlation": 1.0,
    }
    assert found[SAME] == found["global batch"]


def test_opposite_errors_add_up() -> None:
    rows = [row(1.0, math.exp(0.1 if each % 2 else -0.1), each) for each in range(1, 9)]
    found = kinds(rows)["global batch"]
    assert found["nine_of_ten"] == pytest.approx(math.expm1(0.2), abs=1e-3)
    assert found["median_of_a_value"] == pytest.approx(math.expm1(0.1), abs=1e-3)
    assert found["correlation"] == pytest.approx(1.0 - 16 / 28 * 2.0, abs=1e-3)  # 16 of 28 pairs have opposite errors


def test_pairs_are_of_one_source() -> None:
    assert kinds([row(1.0, 1.0, each, f"g{each}") for each in range(1, 20)]) == {}


def test_a_source_weighs_as_many_as_its_rows_not_as_its_pairs() -> None:
    exact = [row(1.0, 1.0, each, "exact") for each in range(1, 21)]  # 190 pairs of 20 rows
    wrong = [
        row(1.0, 2.0**each, each, f"wrong{source}") for source in range(12) for each in (1, 2)
    ]  # 12 pairs, 24 rows
    assert kinds([*exact, *wrong])["global batch"]["median"] == 1.0


def test_runs_of_two_gpus_are_another_kind() -> None:
    rows = [row(1.0, 1.1, each, gpu=gpu) for each in range(1, 6) for gpu in ("A100", "H100")]
    found = kinds(rows)
    assert found["GPU"]["pairs"] == 5
    assert found["GPU, global batch"]["pairs"] == 20
    assert found[OTHER_GPU]["pairs"] == 25


def test_few_rows_and_repeated_runs_say_nothing() -> None:
    assert kinds([row(1.0, 1.0, each) for each in range(1, 8)]) == {}
    assert kinds([row(1.0, 1.0 + each) for each in range(20)]) == {}


def test_the_file_says_how_it_was_made(tmp_path: Path) -> None:
    file = tmp_path / "ratios.yaml"
    write_errors_of_ratios(file, [row(1.0, 1.0, each) for each in range(1, 9)], heading="By a command.")
    assert file.read_text(encoding="utf-8").startswith("# By a command.\ntraining:\n")
    assert read_document(file).data["training"]["iteration_s"]["aspects"] == ["global batch"]


def test_a_command_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "ratios.yaml"
    table = data_folders("experiments")[-1] / "measured" / "serving.csv"
    result = CliRunner().invoke(cli, ["validate", str(table), "--expected-ratios", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["files"] == [str(out)]
    text = out.read_text(encoding="utf-8")
    assert text.startswith("# Errors on all rows, whether the profiles were fitted to them or not,\n")
    assert "by `simsys validate serving.csv --expected-ratios FILE`" in text
    assert {"GPU", "engine", "model"} <= set(read_document(out).data["serving"]["e2e_s"]["aspects"])


def test_the_shipped_errors_of_few_changes_are_smaller_than_those_of_values() -> None:
    """Correlation helps where one setting of the same system differs, as the stored figures say."""
    (path,) = (
        path for folder in data_folders("hardware_profiles") for path in folder.glob("fits/expected_ratios.yaml")
    )
    kinds = read_document(path).data["training"]["iteration_s"]["kinds"]
    for kind in ("global batch", "number of GPUs or nodes"):
        assert kinds[kind]["median"] < 0.5 * kinds[kind]["median_of_a_value"]
        assert kinds[kind]["correlation"] > 0.9
