"""Comparisons as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simsys import SimulationConfig
from simsys.comparisons.comparison import Comparison, compare
from simsys.comparisons.side import Side
from simsys.comparisons.text import comparison_text
from tests.helpers.compare_toys import BENCH, SERVING, TRAINING, training_side, written

UNLIKE = {"a": "mean_ttft_ms", "b": "mean_tpot_ms"}


def test_the_blocks_of_a_comparison(tmp_path: Path) -> None:
    blocks = comparison_text(compare(written(tmp_path / "a.yaml", TRAINING))).split("\n\n")
    assert blocks[0].startswith("half against ddp: mean_iteration_s × 0.")
    assert "training.batch_size_per_gpu: 2 → 1" in blocks[0]
    assert blocks[1].split("\n")[0].split() == ["metric", "ddp", "half", "ratio", "beyond"]
    assert blocks[2].startswith("expected error of the ratio (beyond: ")
    assert blocks[2].split("\n")[1].startswith("  - mean_iteration_s, ")
    assert blocks[3].split("\n")[0].split() == ["time", "of", "an", "iteration", "ddp", "half", "difference"]
    assert blocks[3].split("\n")[-1].startswith("all ")


def test_lines_fit_a_terminal(tmp_path: Path) -> None:
    file, bench = written(tmp_path / "a.yaml", SERVING), written(tmp_path / "a_result_with_a_long_name.json", BENCH)
    for found in (compare(file, bench), compare(file, file, seeds=2)):
        assert max(map(len, comparison_text(found, everything=True).split("\n")[1:])) <= 80


def test_all_metrics_on_request(tmp_path: Path) -> None:
    found = compare(written(tmp_path / "a.yaml", TRAINING))
    assert "communication_ratio" not in comparison_text(found)
    assert "communication_ratio" in comparison_text(found, everything=True)


def test_long_settings_are_cut() -> None:
    job: dict[str, Any] = {**TRAINING["defaults"], "jobs": [{"name": "first", "gpus": 2}]}
    configs = [SimulationConfig.model_validate({**job, "jobs": [{"name": name, "gpus": 2}]}) for name in "ab"]
    sides = [Side(str(each), "jobs", "results", "", config, [{}]) for each, config in enumerate(configs)]
    assert "  jobs: [{'name': 'a', 'gpus': 2, 'arriv… → [{'name': 'b'" in comparison_text(Comparison(sides))


def test_warnings_come_first() -> None:
    found = Comparison([training_side("a"), training_side("b")], ["doubtful"])
    assert comparison_text(found).startswith("warning: doubtful\n\nb against a: ")


def test_no_common_metric_is_said() -> None:
    sides = [Side(name, "serving", "results", name, runs=[{metric: 1.0}]) for name, metric in UNLIKE.items()]
    assert comparison_text(Comparison(sides)).startswith("b against a: no headline metric in common")
