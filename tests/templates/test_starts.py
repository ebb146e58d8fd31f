"""What `simsys init` writes runs as it is, and replaces nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.check import check_file
from simsys.cli import cli
from simsys.config.json_schema import experiment_schema

KINDS = ["serving", "training", "cluster"]
INSTEAD = {"huggingface", "trace", "arrivals"}
"""Settings in comments that stand for others, which are written."""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_an_experiment_runs_as_it_is(kind: str) -> None:
    assert run("init", f"--{kind}").exit_code == 0
    result = run("run", f"{kind}.yaml", "--quiet", "--no-files")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_editors_find_the_schema(kind: str) -> None:
    run("init", f"--{kind}")
    first, *_ = Path(f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
    place = first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(Path(place).read_text(encoding="utf-8")) == experiment_schema()


@pytest.mark.parametrize("kind", KINDS)
def test_each_setting_in_a_comment_may_be_used(kind: str) -> None:
    run("init", f"--{kind}")
    lines = Path(f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
    commented = [number for number, line in enumerate(lines) if re.match(r" +# (?!\w+ ).*\w+: ", line)]
    assert len(commented) > 1
    for number in commented:
        setting = re.sub("# ", "", lines[number], count=1)
        if setting.split(":")[0].strip() in INSTEAD:
            continue
        Path("changed.yaml").write_text("\n".join([*lines[:number], setting, *lines[number + 1 :]]), encoding="utf-8")
        check_file(Path("changed.yaml"))


def test_hardware_is_a_profile_that_an_experiment_uses() -> None:
    assert run("init", "--hardware", "my-gpu").exit_code == 0
    assert "memory: 96 GiB" in run("show", "gpu", "my-gpu").stdout
    assert run("run", "my-gpu.yaml", "--quiet", "--no-files").exit_code == 0


def test_a_plug_in_runs_before_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("init", "--plugin", "my-sched").exit_code == 0
    monkeypatch.chdir("my-sched")
    result = run("run", "experiment.yaml", "--no-files", "--fail-on", "my_sched_answered_share<1")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.slow
def test_a_plug_in_can_be_installed_and_its_tests_pass(tmp_path: Path) -> None:
    run("init", "--plugin", "my-sched")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "wheel")]
    subprocess.run(build, cwd="my-sched", capture_output=True, check=True)
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:  # what installing it does
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my-sched/tests"]
    tests = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "4 passed" in tests.stdout, tests.stdout


def test_files_are_replaced_by_force_alone() -> None:
    Path("serving.yaml").write_text("mine", encoding="utf-8")
    result = run("init", "--serving")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: serving.yaml exists; --force replaces, --out writes elsewhere\n",
    )
    assert Path("serving.yaml").read_text(encoding="utf-8") == "mine"
    assert run("init", "--serving", "--out", "other.yaml").exit_code == 0
    assert run("init", "--serving", "--force").exit_code == 0
    assert Path("serving.yaml").read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to write: --serving"),
        (["--serving", "--training"], "one of them"),
        (["--plugin", "numbers"], "is the name of another package"),
        (["--plugin", "3x"], "is no name of a package"),
        (["--plugin", "../x"], "is no name of a package"),
        (["--hardware", "H100"], "simsys has a GPU of this name"),
        (["--hardware", "a/b"], "a name begins with a letter"),
    ],
)
def test_wrong_usage_writes_nothing(arguments: list[str], message: str) -> None:
    result = run("init", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(Path().iterdir()) == []
