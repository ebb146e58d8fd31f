"""The generated pages of the reference are what the program would write now, and have what they promise."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import simsys
from scripts.make_reference import FOLDER, PAGES
from scripts.reference.api import MODULES, documented
from simsys.cli import cli
from simsys.config.json_schema import experiment_schema
from simsys.data import shipped_folder


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert text(name) == PAGES[name](), "run python scripts/make_reference.py"


def test_every_setting_is_on_its_page() -> None:
    keys = {key for found in experiment_schema()["$defs"].values() for key in found.get("properties", {})}
    assert keys <= set(re.findall(r"^\| `(\w+)`", text("settings.md"), re.MULTILINE))


def test_every_setting_has_a_meaning() -> None:
    rows = [row for row in text("settings.md").splitlines() if row.startswith("| `")]
    assert [row for row in rows if re.search(r"\| +\|$", row)] == []


def test_every_command_and_name_is_on_its_page() -> None:
    page = text("cli.md")
    assert [name for name in cli.commands if f"## simsys {name}\n" not in page] == []
    names = set(re.findall(r"^::: [\w.]+\.(\w+)$", text("api.md"), re.MULTILINE))
    assert set(simsys.__all__) - {"__version__"} <= names


@pytest.mark.parametrize("kind", ["gpus", "nodes", "fabrics", "engines"])
def test_every_profile_has_its_heading(kind: str) -> None:
    names = {path.stem for path in (shipped_folder("hardware_profiles") / kind).glob("*.yaml")}
    assert names
    assert names <= set(re.findall(r"^### (.*)$", text("profiles.md"), re.MULTILINE))


def test_examples_of_public_names_are_sections() -> None:
    """Under "Example:", griffe takes lists of numbers for links, which `make docs` refuses."""
    values = [
        value for name in MODULES for value in documented(import_module(name)).values() if inspect.isclass(value)
    ]
    sources = {source for value in values if (source := inspect.getsourcefile(value))}
    assert len(sources) > 10
    texts = {source: Path(source).read_text(encoding="utf-8") for source in sources}
    assert [source for source, text in texts.items() if re.search(r"^ *Example:$", text, re.MULTILINE)] == []
