"""`simsys analyze`, as it is called."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli

FILE = """
defaults:
  hardware: {profile: dgx-h100, gpus_per_node: 1}
  model: {name: GPT2-Small}
scenarios:
  - name: tiny
    training: {batch_size_per_gpu: 1, gradient_accumulation_steps: 16, num_iterations: 2}
  - name: full
    training: {batch_size_per_gpu: 16, num_iterations: 2}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path / "two.yaml"


def analyze(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["analyze", *arguments])


def test_every_scenario_of_a_file_is_analyzed(file: Path) -> None:
    found = analyze(str(file))
    assert found.exit_code == 0
    assert re.match(r"tiny: compute takes 6\d\.\d % of an iteration", found.stdout)
    assert "\n\n\nfull: compute takes" in found.stdout


def test_a_scenario_and_the_folder_of_its_run_give_the_same_data(file: Path) -> None:
    assert CliRunner().invoke(cli, ["run", str(file), "--scenario", "tiny", "--quiet"]).exit_code == 0
    one, other = (json.loads(analyze(each, "--json").stdout) for each in (f"{file}:tiny", "results/tiny"))
    assert one == other
    assert one["schema_version"] == 1
    assert one["analyses"][0]["remedies"][0]["removes"] is True


def test_settings_can_be_changed(file: Path) -> None:
    changed = analyze(f"{file}:tiny", "--set", "training.gradient_accumulation_steps=1")
    (file.parent / "one.yaml").write_text(FILE.replace("steps: 16", "steps: 1"), encoding="utf-8")
    assert changed.exit_code == 0
    assert changed.stdout == analyze("one.yaml:tiny").stdout != analyze(f"{file}:tiny").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["two.yaml", "--set", "training.steps=1"], 2, "--set training.steps=1: training.steps: unknown key"),
        ([".", "--set", "training.steps=1"], 2, "is no scenario file, so its settings cannot change"),
        (["missing.yaml"], 2, "no such file or folder"),
        (["two.yaml:none"], 2, "none"),
        (["."], 2, "no results of simsys run"),
        (["two.yaml", "--simulations", "-1"], 2, "--simulations"),
    ],
)
@pytest.mark.usefixtures("file")
def test_what_cannot_be_analyzed_is_refused(arguments: list[str], code: int, message: str) -> None:
    found = analyze(*arguments)
    assert found.exit_code == code
    assert message in found.stderr


def test_a_scenario_that_does_not_fit_is_exit_code_3(file: Path) -> None:
    file.write_text(FILE.replace("GPT2-Small", "Llama3-70B"), encoding="utf-8")
    assert analyze(f"{file}:tiny").exit_code == 3
