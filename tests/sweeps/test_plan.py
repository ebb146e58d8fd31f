from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.sweeps.plan import plan_in_python, read_plans
from tests.helpers.sweeps import BASE, experiment, plan

FILE = """\
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 8}
sweep:
  over:
    SETTING: VALUES
"""


def problems(tmp_path: Path, setting: str, values: str) -> str:
    path = tmp_path / "file.yaml"
    path.write_text(FILE.replace("SETTING", setting).replace("VALUES", values), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_plans(path)
    return str(caught.value)


def test_an_unknown_key_is_refused_at_its_line_with_a_suggestion(tmp_path: Path) -> None:
    text = problems(tmp_path, "parallelism.tp_degre", "1..4 x2")
    assert "file.yaml:6:5: parallelism.tp_degre: unknown key 'tp_degre', did you mean 'tp_degree'?" in text


def test_each_wrong_value_is_refused_at_its_place(tmp_path: Path) -> None:
    text = problems(tmp_path, "training.batch_size_per_gpu", "[1, two, 2, 0]")
    assert "file.yaml:6:38: training.batch_size_per_gpu: a whole number is needed, not 'two'" in text
    assert "file.yaml:6:46: training.batch_size_per_gpu: must be above 0, not 0" in text
    assert text.count("file.yaml") == 2


def test_a_path_through_a_value_is_refused(tmp_path: Path) -> None:
    assert "training.batch_size_per_gpu.x: 'training.batch_size_per_gpu' is a value" in problems(
        tmp_path, "training.batch_size_per_gpu.x", "[1]"
    )


def test_combinations_that_do_not_fit_are_left_to_their_rows(tmp_path: Path) -> None:
    sweep = {"over": {"training.batch_size_per_gpu": [8], "parallelism.tp_degree": [1, 12, 4096]}}
    assert plan(tmp_path, sweep).config.count == 3


def test_an_unknown_metric_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metrics.*did you mean 'mean_iteration_s'"):
        plan(tmp_path, {"over": {"training.num_iterations": [1]}, "metrics": ["mean_iteration"]})


def test_a_metric_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no numeric metric of training"):
        plan(tmp_path, {"over": {"training.num_iterations": [1]}, "metrics": ["p99_ttft_ms"]})


def test_an_unknown_analysis_is_refused_at_its_line(tmp_path: Path) -> None:
    base: dict[str, Any] = {**BASE, "simulation": {"analyses": ["high"]}}
    with pytest.raises(ConfigError, match=r"yaml:\d+:\d+: simulation\.analyses\[0\]: unknown analysis 'high'"):
        plan(tmp_path, {"over": {"training.num_iterations": [1]}}, base)


def test_a_required_setting_may_come_from_the_sweep_alone(tmp_path: Path) -> None:
    base: dict[str, Any] = {**BASE, "hardware": {"num_nodes": 1}}
    found = plan(tmp_path, {"over": {"hardware.gpu": ["H100-SXM", "A100-SXM-80GB"]}}, base)
    assert found.first.hardware.gpu == "H100-SXM"


def test_a_file_without_a_sweep_is_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path, {"over": {"training.num_iterations": [1]}})
    path.write_text(path.read_text(encoding="utf-8").replace('"sweep"', '"description": "", "slo"'), encoding="utf-8")
    with pytest.raises(UsageError, match="no section 'sweep' in toy"):
        read_plans(path)


def test_a_setting_of_the_command_line_applies_to_all_points(tmp_path: Path) -> None:
    path = experiment(tmp_path, {"over": {"parallelism.tp_degree": [1, 2]}})
    found = read_plans(path, ["training.num_iterations=7", "sweep.repeats=3"])[0]
    assert found.first.training is not None
    assert found.first.training.num_iterations == 7
    assert found.config.count == 6


def test_a_plan_made_in_python_equals_the_plan_of_a_file(tmp_path: Path) -> None:
    of_file = plan(tmp_path, {"over": {"parallelism.tp_degree": "1..4 x2"}})
    made = plan_in_python(of_file.first.with_({"parallelism.tp_degree": 1}), of_file.config)
    assert made.first == of_file.first
    assert made.paths == of_file.paths
