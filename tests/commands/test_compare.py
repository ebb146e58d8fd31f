"""`simsys compare` as users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from tests.helpers.compare_toys import BENCH, SERVING, TRAINING, written


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path / "a.yaml", TRAINING)


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *arguments])


def test_the_answer_and_its_exit_code(file: str) -> None:
    result = invoked(file)
    assert result.exit_code == 0
    assert result.stdout.startswith("half against ddp: mean_iteration_s × 0.")


@pytest.mark.parametrize(("condition", "code"), [("mfu ratio < 1", 1), ("mfu ratio > 1", 0)])
def test_a_condition_decides_the_exit_code(file: str, condition: str, code: int) -> None:
    result = invoked(file, "--fail-on", condition)
    assert result.exit_code == code
    assert ("failed: half / ddp: the ratio of mfu is 0." in result.stderr) is bool(code)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("mfu > 1", "write a metric and the word 'ratio', <, <=, > or >=, and a number: p99_ttft_ms ratio > 1.05"),
        ("mfu ratio > x", "is not a condition"),
        ("mfuu ratio > 1", "did you mean 'mfu'?"),
    ],
)
def test_a_wrong_condition_is_wrong_usage(file: str, condition: str, message: str) -> None:
    result = invoked(file, "--fail-on", condition)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_json_is_one_object(file: str) -> None:
    found = json.loads(invoked(file, "--json", "--fail-on", "mfu ratio < 1").stdout)
    assert [side["name"] for side in found["comparison"]["sides"]] == ["ddp", "half"]
    assert found["failed"]


def test_folders_scenarios_and_measurements_together(tmp_path: Path) -> None:
    file, bench = written(tmp_path / "chat.yaml", SERVING), written(tmp_path / "bench.json", BENCH)
    assert CliRunner().invoke(cli, ["run", file, "--out", str(tmp_path / "out")]).exit_code == 0
    result = invoked(bench, str(tmp_path / "out" / "chat"), file)
    assert result.exit_code == 0
    assert "error of one prediction" in " ".join(result.stdout.split())
    assert "to the first token" in result.stdout


@pytest.mark.parametrize("sources", [[], ["missing"], ["a.yaml:ddp"]])
def test_bad_input_is_wrong_usage(file: str, sources: list[str]) -> None:
    folder = Path(file).parent
    result = invoked(*(str(folder / source) for source in sources))
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_run_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    long = {**SERVING, "workload": {**SERVING["workload"], "num_requests": 4_000_000}}
    file = written(tmp_path / "a.yaml", long)
    assert invoked(file, file, "--limit", "1").exit_code == 2


def test_the_first_scenario_is_compared_with_other_settings(file: str) -> None:
    changes = [
        "--change",
        "training.batch_size_per_gpu=4",
        "--change",
        "training.precision=fp16;training.batch_size_per_gpu=1",
    ]
    result = invoked(f"{file}:ddp", *changes, "--json")
    assert result.exit_code == 0, result.stderr
    pairs = json.loads(result.stdout)["comparison"]
    labels = ["ddp", "training.batch_size_per_gpu=4", "training.precision=fp16, training.batch_size_per_gpu=1"]
    assert [side["name"] for side in pairs["sides"]] == labels
    assert "training.batch_size_per_gpu" in invoked(f"{file}:ddp", *changes[:2]).stdout.splitlines()[1]


def test_what_cannot_be_changed_is_wrong_usage(file: str, tmp_path: Path) -> None:
    bench = written(tmp_path / "bench.json", BENCH)
    result = invoked(bench, "--change", "hardware.num_nodes=2")
    assert result.exit_code == 2
    assert "is no scenario file, so its settings cannot change" in result.stderr
    result = invoked(file, "--change", "hardware.num_node=2")
    assert result.exit_code == 2
    assert "did you mean 'num_nodes'?" in result.stderr
