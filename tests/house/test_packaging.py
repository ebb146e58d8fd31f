"""The wheel and the source distribution hold the whole program, and find their data wherever they are installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.helpers.places import ROOT

PACKAGES = {"simsys", "frameworks", "hardware_profiles", "model_db", "experiments"}
DATA_KINDS = ["hardware_profiles", "model_db", "experiments"]
SUFFIXES = {".py", ".typed", ".yaml", ".yml", ".json", ".csv", ".jsonl", ".html", ".css", ".js", ".tmpl"}


def build(project: Path, target: str, folder: Path) -> Path:
    """Build one distribution with what is installed, downloading nothing."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=project, capture_output=True, check=True)
    (built,) = folder.iterdir()
    return built


def shipped_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def tree_files() -> set[str]:
    """Sources and data of the five packages in this checkout."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.suffix in SUFFIXES)
    return {file.relative_to(ROOT).as_posix() for file in files}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked into a folder of its own, which is what installing a wheel without compiled parts does."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_has_the_five_packages_and_nothing_beside(wheel: Path) -> None:
    assert {PurePosixPath(name).parts[0] for name in shipped_files(wheel)} == PACKAGES


def test_the_wheel_has_every_source_and_data_file(wheel: Path) -> None:
    assert shipped_files(wheel) == tree_files()
    assert "simsys/py.typed" in shipped_files(wheel)


def test_the_wheel_has_the_command(installed: Path) -> None:
    (entry_points,) = installed.glob("simsys-*.dist-info/entry_points.txt")
    assert "simsys = simsys.__main__:main" in entry_points.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", DATA_KINDS)
def test_an_installed_copy_finds_its_data_among_folders_of_the_same_names(
    installed: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PACKAGES - {"simsys"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.delenv("SIMSYS_PATH", raising=False)
    program = (
        "import importlib, json, simsys.data; "
        f"theirs = importlib.import_module({kind!r}).__file__; "
        f"print(json.dumps([theirs, *map(str, simsys.data.data_folders({kind!r}))]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    theirs, *folders = json.loads(output)
    assert Path(theirs).is_relative_to(tmp_path), "the user's folder should shadow the import"
    assert [Path(folder) for folder in folders] == [installed / kind]


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path / "source")
    (project,) = (tmp_path / "source").iterdir()
    rebuilt = build(project, "wheel", tmp_path / "wheel")
    assert rebuilt.name == wheel.name
    assert rebuilt.read_bytes() == wheel.read_bytes()
