"""Completion by a shell: what is offered, and the scripts that ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from simsys.cli import cli
from simsys.commands.completion import VARIABLE


@pytest.fixture(autouse=True)
def in_a_folder_with_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text("scenarios: [{name: chat}, {name: code}]", encoding="utf-8")
    Path("one.yaml").write_text("name: single", encoding="utf-8")
    Path("broken.yaml").write_text("scenarios: [{", encoding="utf-8")


def offered(*words: str) -> list[str]:
    """What is offered for the last of some words."""
    found = BashComplete(cli, {}, "simsys", VARIABLE).get_completions(list(words[:-1]), words[-1])
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["va"], ["validate"]),
        (["run", "--pre"], ["--preset"]),
        (["run", "--preset", ""], ["small", "medium", "large"]),
        (["run", "e.yaml", "--scenario", "c"], ["chat", "code"]),
        (["check", "e.yaml", "--set", "serving.max_num_s"], ["serving.max_num_seqs"]),
        (["memory", "one.yaml", "--scenario", ""], ["single"]),
        (["run", "--preset", "small", "--scenario", "s"], ["small_scale"]),
        (["run", "e.yaml", "--fail-on", "p99_ttft"], ["p99_ttft_ms"]),
        (["show", "eng"], ["engine"]),
        (["show", "gpu", "h1"], ["H100-SXM"]),
        (["show", "model", "Llama3-8"], ["Llama3-8B"]),
        (["list", "to"], ["topologies"]),
        (["sweep", "st"], ["status"]),
    ],
)
def test_names_are_offered(words: list[str], some: list[str]) -> None:
    assert set(some) <= set(offered(*words))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "broken.yaml", "--scenario", ""],
        ["run", "none.yaml", "--scenario", ""],
        ["show", "gpuz", ""],
        ["rnu", ""],
    ],
)
def test_what_is_unknown_offers_nothing_that_fits(words: list[str]) -> None:
    assert not {"chat", "H100-SXM"} & set(offered(*words))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_simsys(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in result.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_its_script(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/simsys"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m simsys "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = (
        'eval "$(simsys completion bash)"; COMP_WORDS=(simsys run e.yaml --scenario co); COMP_CWORD=4; '
        '_simsys_completion simsys; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    found = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("code\n", "")
