"""What is imported at the start: counted in modules, since seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pandas", "matplotlib", "networkx", "jinja2"}


def imported_by(*arguments: str) -> set[str]:
    """The modules that a fresh interpreter imports, by its own account."""
    command = [sys.executable, "-X", "importtime", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = (line for line in process.stderr.splitlines() if line.startswith("import time:"))
    return {row.rsplit("|", 1)[1].strip() for row in rows}


def test_the_account_lists_what_is_imported() -> None:
    assert {"json", "json.decoder"} <= imported_by("-c", "import json")


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [(["-c", "import simsys"], HEAVY | {"numpy", "pydantic", "simpy", "yaml", "click"})]
    + [(["-m", "simsys", option], HEAVY | {"numpy", "pydantic"}) for option in ("--help", "--version")],
    ids=["import", "help", "version"],
)
def test_the_start_imports_nothing_heavy(arguments: list[str], unwanted: set[str]) -> None:
    imported = imported_by(*arguments)
    assert "simsys" in imported
    assert not unwanted & imported


def test_importing_simsys_adds_a_handful_of_modules() -> None:
    added = imported_by("-c", "import simsys") - imported_by("-c", "import importlib, typing")
    assert len(added) <= 3, added
