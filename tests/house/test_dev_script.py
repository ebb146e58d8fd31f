"""`scripts/dev.sh` with a stand-in for the environment: what each verb installs, and what it says at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")

LOCKS = ["requirements.lock", "requirements-run.lock"]
PYTHON = """\
#!/bin/sh
case "$*" in
*"--require-hashes"*) echo "$*" | tr ' ' '\\n' | grep '^requirements' >>installed ;;
*pytest*) echo tested ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment lists what is installed to it."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/dev.sh", tmp_path / "scripts")
    for name in [*LOCKS, "pyproject.toml"]:
        (tmp_path / name).touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, text in {"python": PYTHON, "simsys": '#!/bin/sh\necho "simsys $*"\n[ "$FAIL" != yes ]\n'}.items():
        program = tmp_path / ".venv/bin" / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    (tmp_path / ".venv/.ready").write_text(f"{tmp_path.resolve()}\n", encoding="utf-8")
    os.utime(tmp_path / ".venv/.ready", (0, 0))  # older than the locks
    return tmp_path


def dev(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(checkout / "scripts/dev.sh"), *arguments]
    found = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=found, capture_output=True, text=True, check=False)


def installed(checkout: Path) -> list[str]:
    file = checkout / "installed"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def changed(checkout: Path) -> None:
    """The locks are newer than the environment again."""
    os.utime(checkout / ".venv/.ready", (0, 0))


def test_a_run_installs_what_simsys_needs_and_tests_add_the_rest(checkout: Path) -> None:
    assert dev(checkout, "run").returncode == 0
    assert dev(checkout, "run").returncode == 0
    assert installed(checkout) == ["requirements-run.lock"]
    for _ in range(2):
        assert "tested" in dev(checkout, "test").stdout
    assert dev(checkout, "run").returncode == 0
    assert installed(checkout) == ["requirements-run.lock", "requirements.lock"]


def test_what_tests_need_stays_when_a_run_comes_after_a_change(checkout: Path) -> None:
    dev(checkout, "test")
    changed(checkout)
    dev(checkout, "run")
    dev(checkout, "test")
    assert installed(checkout) == ["requirements.lock", "requirements.lock"]


def test_a_run_says_what_to_type_next(checkout: Path) -> None:
    lines = dev(checkout, "run").stdout.splitlines()
    assert lines[0] == "simsys run experiments/experiment_config.yaml --quiet"
    assert "  . .venv/bin/activate" in lines
    assert lines[-1].startswith("  simsys ")
    assert len(lines) <= 8


def test_a_run_with_arguments_passes_them_and_its_exit_code_on(checkout: Path) -> None:
    result = dev(checkout, "run", "--scenario", "a b", FAIL="yes")
    assert result.stdout == "simsys run experiments/experiment_config.yaml --quiet --scenario a b\n"
    assert result.returncode == 1


def test_a_missing_python_is_named(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    tools = checkout / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "dirname", "find", "mkdir", "rm"):
        (tools / name).symlink_to(shutil.which(name) or name)
    result = dev(checkout, "run", PATH=str(tools))
    assert result.returncode == 3
    assert "python3-venv" in result.stderr
