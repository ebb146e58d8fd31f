"""What holds for the project's own files: nothing of one machine in them, few public names."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import simsys
from tests.helpers.places import ROOT

PUBLIC_NAMES = 40

# Written in pieces, so that this file passes its own test.
MACHINE, INDEX, OPTION = "/" + "work/", "py" + "pi.org", "index" + "-url"
FOREIGN = {
    "a path of one machine": re.compile(rf"(?<![\w.]){MACHINE}"),
    "the address of a package index": re.compile(rf"{re.escape(INDEX)}|python{'hosted'}|://[^\s\"'<>]*/{'simple'}\b"),
    "an option that names an index": re.compile(rf"--(extra-)?{OPTION}|--find{'-links'}|--trusted{'-host'}"),
    "an unresolved conflict of a merge": re.compile(r"^(<{7}|>{7}) "),
}


def project_files() -> list[Path]:
    """Every file that is committed or would be."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_the_listing_finds_the_project() -> None:
    names = {file.relative_to(ROOT).as_posix() for file in project_files()}
    assert {"pyproject.toml", "requirements.lock", "simsys/errors.py"} <= names


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_holds(what: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line[:80]}"
        for file in project_files()
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if FOREIGN[what].search(line)
    ]
    assert not found, "\n".join([what, *found])


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", f"see {MACHINE}tree"),
        ("the address of a package index", f"https://{INDEX}/project/x"),
        ("the address of a package index", f"https://example.com/{'simple'}/numpy"),
        ("an option that names an index", f"--extra-{OPTION} x"),
        ("an unresolved conflict of a merge", "<" * 7 + " HEAD"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, line: str) -> None:
    assert FOREIGN[what].search(line)


LOCKS = ["requirements.lock", "requirements-run.lock", "requirements-browser.lock"]


def locked(name: str) -> list[str]:
    """The requirements of a lock, each with its hashes."""
    lock = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in lock.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_requirement_has_a_hash(name: str) -> None:
    assert locked(name)
    assert [line for line in locked(name) if "==" not in line or "--hash=sha256:" not in line] == []


def test_what_a_run_installs_is_the_part_of_the_lock_that_simsys_needs() -> None:
    part = locked("requirements-run.lock")
    assert set(part) < set(locked("requirements.lock"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["editable"]]
    assert {re.split(r"[<>=]", each)[0].lower() for each in needed} <= {each.split("==")[0].lower() for each in part}
    assert not {"pytest", "mypy", "ruff"} & {each.split("==")[0] for each in part}


def test_public_names_are_few_and_exist() -> None:
    assert len(simsys.__all__) <= PUBLIC_NAMES
    assert set(simsys.__all__) == {*simsys._LAZY, "__version__"}
    assert set(simsys.__all__) <= set(dir(simsys))
    for name in simsys.__all__:
        assert getattr(simsys, name) is not None


def test_a_public_name_is_the_object_of_its_module() -> None:
    for name, module in simsys._LAZY.items():
        assert getattr(simsys, name) is getattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        simsys.no_such_name  # noqa: B018
