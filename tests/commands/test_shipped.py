"""Presets and examples in the place of FILE."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.config.presets import PRESETS
from simsys.report.examples import EXAMPLES
from simsys.report.examples import PRESETS as SHIPPED


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("size", PRESETS)
def test_a_preset_is_its_scenario(size: str) -> None:
    result = run("run", "--preset", size, "--quiet", "--no-files", "--set", "training.num_iterations=2")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{PRESETS[size]}: ")
    assert list(SHIPPED[size].names) == [PRESETS[size]]


@pytest.mark.parametrize("number", [number for number, example in EXAMPLES.items() if example.names])
def test_an_example_simulates_its_scenarios(number: str) -> None:
    scaled = EXAMPLES[number].scaling
    options = ["--nodes", "1,2"] if scaled else ["--quiet"]
    result = run("run", "--example", number, "--no-files", "--set", "training.num_iterations=2", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    for name in EXAMPLES[number].names:
        assert f"{name}: " in result.stdout


def test_the_last_example_is_the_main_job() -> None:
    assert EXAMPLES["5"].file.read_text(encoding="utf-8").count("- name: ") == 5
    result = run("run", "--example", "5", "--scenario", "resnet50-ddp-8xV100", "--quiet", "--no-files")
    assert result.stdout.startswith("resnet50-ddp-8xV100: ")


@pytest.mark.parametrize("nodes", [["1", "2", "4"], ["1,2,4"], ["1..4x2"]])
def test_scaling_is_the_command_scale(nodes: list[str]) -> None:
    options = ["--mode", "weak", "--no-files", "--set", "training.num_iterations=2", "--nodes", *nodes]
    result = run("run", "--scaling", "--preset", "small", *options)
    assert result.exit_code == 0
    assert result.stdout == run("scale", "--preset", "small", *options).stdout
    assert [line.split()[0] for line in result.stdout.splitlines()[3:6]] == ["1", "2", "4"]


def test_scaling_without_a_file_is_of_the_medium_preset() -> None:
    options = ["--nodes", "1", "--mode", "weak", "--no-files"]
    result = run("run", "--scaling", *options)
    assert result.stdout.startswith("medium_scale: ")
    Path("e.yaml").write_text(SHIPPED["small"].file.read_text(encoding="utf-8"), encoding="utf-8")
    own = run(
        "run", "--scaling", "e.yaml", "--scenario", "small_scale", "--nodes", "1", "--mode", "weak", "--no-files"
    )
    assert own.stdout.startswith("small_scale: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'FILE'. --preset or --example may take its place."),
        (["run", "e.yaml", "--preset", "small"], "give one of FILE, --preset and --example"),
        (["run", "--example", "1", "--preset", "small"], "give one of FILE, --preset and --example"),
        (["run", "--preset", "smal"], "'smal' is not one of 'small', 'medium', 'large'"),
        (["run", "--example", "6"], "'6' is not one of '1'"),
        (["run", "--scaling", "--trace"], "No such option '--trace'"),
        (["show", "example", "6"], "unknown example '6'"),
    ],
)
def test_wrong_usage_says_what_is_possible(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
