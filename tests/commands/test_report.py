"""The option --report of all commands that have it: the page of `simsys report`, after the other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import simsys.level_study.compare as level_study
from simsys.cli import cli
from tests.helpers.level_study_toys import at_once

TRAIN = """
name: train
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 8, num_iterations: 2}
"""
SWEEP = f"{TRAIN}sweep: {{over: {{training.batch_size_per_gpu: [4, 8]}}}}\n"
SEARCH = """
name: train
hardware: {profile: dgx-h100, gpus_per_node: 2}
model: {name: GPT2-Small}
training: {global_batch_size: 16, num_iterations: 2}
search: {minimize: mean_iteration_s, over: {parallelism.tp_degree: [1, 2]}}
"""


def simsys(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with measurements in this process."""
    monkeypatch.chdir(tmp_path)
    settings = level_study.Settings
    monkeypatch.setattr(level_study, "Settings", lambda **given: settings(**given, call=at_once))
    for name, text in {"train": TRAIN, "sweep": SWEEP, "search": SEARCH}.items():
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


COMMANDS = {
    "run": (["run", "train.yaml"], "What it costs"),
    "sweep": (["sweep", "sweep.yaml", "--jobs", "1"], "All points"),
    "search": (["search", "search.yaml", "--jobs", "1"], "How it was found"),
    "compare": (["compare", "train.yaml", "--change", "training.batch_size_per_gpu=4"], "Ratios"),
    "lod": (["lod", "train.yaml", "--repeats", "1"], "Medium against high"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_its_page(here: Path, command: str) -> None:
    arguments, words = COMMANDS[command]
    ran = simsys(*arguments, "--report", "pages/r.html")
    assert ran.exit_code == 0, ran.output
    text = Path("pages/r.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert words in text
    assert [file.name for file in Path("pages").iterdir()] == ["r.html"]


@pytest.mark.parametrize("command", ["run", "search", "compare"])
def test_a_page_that_cannot_be_written_is_said(here: Path, command: str) -> None:
    arguments, _ = COMMANDS[command]
    ran = simsys(*arguments, "--report", "train.yaml/r.html")
    assert ran.exit_code == 2
    assert "train.yaml is a file, a folder is needed" in ran.stderr


def test_a_page_is_of_one_sweep(here: Path) -> None:
    two = f"scenarios:\n  - {{{SWEEP.strip().replace(chr(10), ', ')}}}\n"
    Path("two.yaml").write_text(two + two.partition("\n")[2].replace("name: train", "name: other"), encoding="utf-8")
    ran = simsys("sweep", "two.yaml", "--report", "r.html")
    assert ran.exit_code == 2
    assert "choose one with --scenario" in ran.stderr


def test_nothing_simulated_is_no_page(here: Path) -> None:
    Path("large.yaml").write_text(TRAIN.replace("GPT2-Small", "Llama3-70B"), encoding="utf-8")
    ran = simsys("run", "large.yaml", "--report", "r.html")
    assert ran.exit_code == 3
    assert "so r.html is not written" in ran.stderr
    assert not Path("r.html").exists()
