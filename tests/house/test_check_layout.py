"""The check of sizes and circles finds what is past a limit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.places import ROOT


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_layout", ROOT / "scripts" / "check_layout.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_layout = loaded()
LAYERS = """
[[tool.importlinter.contracts]]
type = "forbidden"

[[tool.importlinter.contracts]]
type = "layers"
layers = ["({name}.top) : {name}.beside_top", "{name}.middle"]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A package of two small modules, one of which imports the other; every test has its own name for it."""
    name = f"toy_{tmp_path.name}"
    folder = tmp_path / name
    (tmp_path / "pyproject.toml").write_text(LAYERS.format(name=name))
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "low.py").write_text("ONE = 1\n")
    (folder / "high.py").write_text(f"from {name}.low import ONE\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder, name


def problems(package: tuple[Path, str]) -> list[str]:
    folder, name = package
    return check_layout.problems(folder.parent, [name])


def test_a_small_package_without_circles_passes(package: tuple[Path, str]) -> None:
    assert problems(package) == []


def test_a_file_may_have_300_lines_and_no_more(package: tuple[Path, str]) -> None:
    folder, name = package
    (folder / "low.py").write_text("ONE = 1\n" * 300)
    assert problems(package) == []
    (folder / "low.py").write_text("ONE = 1\n" * 301)
    assert problems(package) == [f"{name}/low.py: 301 lines, at most 300 are allowed"]


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_may_have_50_lines_and_no_more(package: tuple[Path, str], keyword: str) -> None:
    folder, name = package
    (folder / "low.py").write_text(f"class Low:\n    {keyword} one(self):\n" + 49 * "        pass\n")
    assert problems(package) == []
    (folder / "low.py").write_text(f"class Low:\n    {keyword} one(self):\n" + 50 * "        pass\n")
    assert problems(package) == [f"{name}/low.py:one: 51 lines, at most 50 are allowed in a function"]


@pytest.mark.parametrize(
    "back",
    [
        "import {name}.high\n",
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from {name}.high import ONE\n",
        "def one():\n    from {name} import high\n    return high\n",
        "from . import high\n",
    ],
    ids=["loaded", "typing", "deferred", "relative"],
)
def test_a_circle_counts_however_it_is_closed(package: tuple[Path, str], back: str) -> None:
    folder, name = package
    (folder / "low.py").write_text(back.format(name=name))
    assert problems(package) == [f"modules import each other in a circle: {name}.high, {name}.low"]


def test_a_circle_through_the_package_itself_counts(package: tuple[Path, str]) -> None:
    folder, name = package
    (folder / "__init__.py").write_text(f"from {name}.low import ONE\n")
    (folder / "low.py").write_text(f"import {name}\n")
    assert problems(package) == [f"modules import each other in a circle: {name}, {name}.low"]


@pytest.mark.parametrize("between", ["", "between"])
def test_an_import_of_a_higher_layer_is_found_however_it_comes_about(package: tuple[Path, str], between: str) -> None:
    folder, name = package
    (folder / "top.py").write_text(f"import {name}.middle\nimport {name}.beside_top\n")
    (folder / "beside_top.py").write_text("")
    (folder / "middle.py").write_text("")
    assert problems(package) == []
    typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
    (folder / "middle.py").write_text(f"{typing}    import {name}.{between or 'beside_top'}\n")
    (folder / "between.py").write_text(f"import {name}.beside_top\n")
    assert problems(package) == [f"{name}.middle imports {name}.beside_top, which is above it"]


def test_the_exit_code_says_whether_all_is_well(
    package: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, name = package
    monkeypatch.setattr(check_layout, "ROOT", folder.parent)
    assert check_layout.main([name]) == 0
    (folder / "low.py").write_text("ONE = 1\n" * 301)
    assert check_layout.main([name]) == 1
    assert "301 lines" in capsys.readouterr().err


@pytest.mark.slow
def test_the_project_is_within_the_limits() -> None:
    assert check_layout.problems(ROOT, ["simsys", "frameworks"]) == []
