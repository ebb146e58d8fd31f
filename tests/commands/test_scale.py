"""`simsys scale`, as it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.report.scaling import read_scaling

FILE = """
name: gpt2
hardware: {profile: dgx-h100, gpus_per_node: 2, num_nodes: 1}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 4, num_iterations: 1}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path / "gpt2.yaml"


def scale(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["scale", *arguments])


def test_both_kinds_are_printed_and_written(file: Path) -> None:
    found = scale(str(file), "--nodes", "1..4x2")
    assert found.exit_code == 0
    assert found.stdout.startswith("gpt2: weak scaling")
    assert "gpt2: strong scaling" in found.stdout
    assert "fit of Gustafson's law" in found.stdout
    assert "fit of Amdahl's law" in found.stdout
    studies = read_scaling(Path("results/gpt2/gpt2_scaling.json"))
    assert [(study.mode, study.rows["nodes"]) for study in studies] == [("weak", [1, 2, 4]), ("strong", [1, 2, 4])]
    assert Path("results/gpt2/gpt2_scaling_strong.csv").is_file()


def test_json_has_the_studies(file: Path) -> None:
    found = json.loads(scale(str(file), "--nodes", "1,2", "--mode", "weak", "--no-files", "--json").stdout)
    (study,) = found["scenarios"][0]["studies"]
    assert study["rows"]["gpus"] == [2, 4]
    assert study["fits"]["Gustafson"]["fraction"] >= 0
    assert found["files"] == []
    assert not Path("results").exists()


def test_a_mode_that_is_impossible_is_a_note_if_the_other_one_is_possible(file: Path) -> None:
    found = scale(str(file), "--nodes", "3", "--no-files")
    assert found.exit_code == 0
    assert "note: none of these numbers of nodes can be simulated: a global batch of 8 cannot" in found.stderr
    assert "a fit needs two" in found.stdout
    assert scale(str(file), "--nodes", "3", "--mode", "strong").exit_code == 2


@pytest.mark.parametrize("sizes", ["0..3", "1..x", "two", "1.5", "", "4..1", "-1", "1,,2"])
def test_other_sizes_are_refused(file: Path, sizes: str) -> None:
    found = scale(str(file), f"--nodes={sizes}")
    assert found.exit_code == 2
    assert "Error" in found.stderr or "error" in found.stderr
    assert not Path("results").exists()


def test_serving_and_sizes_that_do_not_fit_are_refused(file: Path) -> None:
    file.write_text(FILE.replace("GPT2-Small", "Llama3-70B"), encoding="utf-8")
    found = scale(str(file), "--nodes", "1")
    assert found.exit_code == 2
    assert "does not fit" in found.stderr
    load = "{prompt_tokens: 8, output_tokens: 8, num_requests: 1, arrivals: {kind: all_at_once}}"
    serving = f"serving: {{}}\nworkload: {load}\n"
    file.write_text(FILE.partition("training")[0] + serving, encoding="utf-8")
    assert "needs training" in scale(str(file)).stderr


def test_a_file_that_cannot_be_written_is_exit_code_2(file: Path) -> None:
    Path("results").write_text("", encoding="utf-8")
    found = scale(str(file), "--nodes", "1")
    assert found.exit_code == 2
    assert "cannot write" in found.stderr
