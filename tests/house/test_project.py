"""What holds for the project's own files: nothing of one machine in them, few public names."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

import simsys
from tests.helpers.places import ROOT

PUBLIC_NAMES = 25

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


def test_every_locked_requirement_has_a_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", "")
    requirements = [line for line in lock.splitlines() if line and not line.startswith("#")]
    assert requirements
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []


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
