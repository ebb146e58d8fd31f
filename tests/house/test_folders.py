"""The folders of the tests are those of the packages: who changes a module knows where its tests are."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.places import ROOT

TESTS = ROOT / "tests"
OF_THE_WHOLE = {"agreement", "theory", "house"}
"""Tests that belong to no single package."""
SUPPORT = {"helpers"}


def python_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*.py") if "__pycache__" not in file.parts]


def package_of(folder: str) -> Path:
    """The package whose tests lie in this folder of the tests."""
    return ROOT / folder if folder.split("/")[0] == "frameworks" else ROOT / "simsys" / folder


def modules() -> dict[str, set[str]]:
    """Every module's name, and the folders in which its tests may lie (for the tests of a package, its own)."""
    found: dict[str, set[str]] = {}
    for root, parent in (("simsys", ROOT / "simsys"), ("frameworks", ROOT)):
        for file in python_files(ROOT / root):
            path = file.relative_to(parent)
            name = path.parent.name if path.name == "__init__.py" else path.stem
            found.setdefault(name, set()).add(path.parent.as_posix())
    return found


def misplaced(tests: dict[str, list[str]], homes: dict[str, set[str]]) -> list[str]:
    """The tests, by folder, whose module lies in another package; flat ones that belong to no top-level module."""
    found = []
    for folder, names in tests.items():
        for name in names:
            allowed = homes.get(name, set() if folder == "." else {folder})
            if folder not in allowed:
                found.append(f"{folder}/test_{name}.py: its module is in {', '.join(sorted(allowed)) or 'no package'}")
    return found


def by_folder() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in python_files(TESTS):
        folder = file.parent.relative_to(TESTS).as_posix()
        if file.name.startswith("test_") and folder not in OF_THE_WHOLE:
            found.setdefault(folder, []).append(file.stem.removeprefix("test_"))
    return found


def test_every_folder_corresponds_to_a_package() -> None:
    folders = {file.parent.relative_to(TESTS).as_posix() for file in python_files(TESTS)} - {"."}
    assert folders >= OF_THE_WHOLE | SUPPORT
    strangers = [name for name in folders - OF_THE_WHOLE - SUPPORT if not (package_of(name) / "__init__.py").exists()]
    assert strangers == []
    assert [name for name in folders if not (TESTS / name / "__init__.py").exists()] == [], "files of one name clash"


def test_every_test_lies_in_the_folder_of_its_package() -> None:
    tests = by_folder()
    assert {"platform", "executors/steps", "frameworks"} <= set(tests)
    assert misplaced(tests, modules()) == []


def test_what_lies_elsewhere_is_found() -> None:
    homes = {"units": {"."}, "fair": {"platform"}, "network": {"platform", "build"}}
    right = {".": ["units"], "build": ["network", "nodes_of_a_kind"], "platform": ["fair", "network"]}
    assert misplaced(right, homes) == []
    wrong = {".": ["fair", "nodes_of_a_kind"], "build": ["fair", "units"]}
    assert [text.split(":")[0] for text in misplaced(wrong, homes)] == [
        "./test_fair.py",
        "./test_nodes_of_a_kind.py",
        "build/test_fair.py",
        "build/test_units.py",
    ]


def test_helpers_hold_no_tests_and_tests_no_helpers() -> None:
    files = {file.relative_to(TESTS) for file in python_files(TESTS)}
    ours = {path for path in files if path.parts[0] in SUPPORT}
    assert [path for path in ours if path.name.startswith("test_")] == []
    others = {path.name for path in files - ours if not path.name.startswith("test_")}
    assert others == {"__init__.py", "conftest.py"}
