"""`simsys import-command`: an experiment on disk or on the screen, with what was not read, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from simsys.cli import cli

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64 --port 8000 --cpu-offload-gb 4"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["import-command", *arguments], input=given)


def test_the_experiment_is_printed_with_what_was_not_read() -> None:
    found = run(SERVE, "--on", "dgx-h100")
    assert found.exit_code == 0, found.stderr
    data = yaml.safe_load(found.stdout)
    assert data["model"] == {"name": "meta-llama/Llama-3.1-8B-Instruct"}
    assert data["hardware"] == {"profile": "dgx-h100", "gpus_per_node": 1}
    notes = ["not read: --cpu-offload-gb 4", "assumed: workload: no command sends traffic; write your own"]
    assert [line[2:] for line in found.stdout.splitlines() if line.startswith("# ")][1:] == notes
    assert found.stderr.splitlines() == notes


def test_the_experiment_is_written_and_runs() -> None:
    Path("serve.sh").write_text(f"#!/bin/sh\nexec {SERVE} &\nvllm bench serve --model X --num-prompts 20\n")
    found = run("serve.sh", "--on", "H100", "--out", "mine.yaml", "--name", "mine")
    assert found.stdout == "wrote mine.yaml; next: simsys run mine.yaml\n"
    done = CliRunner().invoke(cli, ["run", "mine.yaml", "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["metrics"]["completed"] == 20
    again = run("serve.sh", "--on", "H100", "--out", "mine.yaml")
    assert (again.exit_code, again.stderr.splitlines()[-1]) == (2, "error: mine.yaml exists; --force replaces it")
    assert run("serve.sh", "--on", "H100", "--out", "mine.yaml", "--force").exit_code == 0


def test_standard_input_and_json() -> None:
    found = run("-", "--on", "dgx-h100", "--json", given=SERVE)
    answer = json.loads(found.stdout)
    assert answer["scenario"]["serving"] == {"engine": "vllm", "max_num_seqs": 64}
    assert answer["not_read"] == ["--cpu-offload-gb 4"]
    assert answer["without_effect"] == ["port"]
    assert answer["files"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.sh", "--on", "dgx-h100"), "cannot read none.sh"),
        (("vllm serve X", "--on", "dgx-h9000"), "unknown node or GPU 'dgx-h9000', did you mean"),
        (("vllm serve acme/X", "--on", "dgx-h100"), "unknown model 'acme/X'"),
        (("vllm serve 'X", "--on", "dgx-h100"), "no closing quotation"),
    ],
)
def test_errors_are_said_without_a_file(arguments: tuple[str, ...], message: str) -> None:
    found = run(*arguments, "--out", "x.yaml")
    assert found.exit_code == 2
    assert message in found.stderr
    assert not Path("x.yaml").exists()
