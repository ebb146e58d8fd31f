"""What surrounds a command is bad: a narrow terminal, a read-only folder, files with odd names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli

SCENARIO = """\
name: a
hardware: {gpu: H100}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 4}
"""


def simsys(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; a traceback may never be shown."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "simsys", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def invoked(*arguments: str) -> Result:
    """Run a command in this process and the current folder; a traceback may never be shown."""
    result = CliRunner().invoke(cli, arguments)
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_is_as_narrow_as_a_terminal_of_40_columns_allows(tmp_path: Path) -> None:
    lines = simsys(tmp_path, "run", "--help", COLUMNS="40").stdout.splitlines()
    assert max(len(line) for line in lines if " simsys " not in line) <= 50  # the least of click; examples stay whole


@pytest.mark.slow  # processes of their own
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_read_only_home_and_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "out").mkdir()
    tmp_path.chmod(0o555)
    as_anybody = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def tried(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*as_anybody, sys.executable, "-P", "-m", "simsys", "run", "a.yaml", "--quiet", *options]
        variables = {key: value for key, value in os.environ.items() if key != "MPLCONFIGDIR"}
        variables["HOME"] = str(tmp_path)
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    refused, without_files, elsewhere = tried(), tried("--no-files"), tried("--plots", "--out", "out")
    tmp_path.chmod(0o755)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("error: cannot write results")
    assert "a: " in refused.stdout, "what was simulated is answered"
    assert (without_files.returncode, without_files.stderr) == (0, "")
    assert (elsewhere.returncode, elsewhere.stderr) == (0, ""), "pictures need no folder for settings"
    assert list((tmp_path / "out").rglob("*.png"))


def test_files_named_like_commands_and_options(here: Path) -> None:
    for name in ("run", "list", "--help"):
        (here / name).write_text(SCENARIO, encoding="utf-8")
    assert invoked("run", "run", "--no-files", "--quiet").stdout.startswith("a: ")
    assert invoked("check", "list").stdout.startswith("list: ok")
    assert invoked("check", "--", "--help").stdout.startswith("--help: ok")
    assert "Missing argument 'FILE'" in invoked("run").stderr
    (here / "sweep").mkdir()
    folder = invoked("run", "sweep")
    assert folder.exit_code == 2
    assert folder.stderr.startswith("sweep: this is a directory, a YAML file is needed")
