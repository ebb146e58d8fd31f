"""Each package says what it is, where to start reading and what it may import; it imports nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import grimp
import pytest

import simsys
from tests.helpers.places import ROOT

PACKAGES = sorted(file.parent.name for file in (ROOT / "simsys").glob("*/__init__.py"))


def docstring(package: str) -> str:
    tree = ast.parse((ROOT / "simsys" / package / "__init__.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


def named_modules(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+\.py)`", text)


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """For each package the other packages and modules of simsys that it imports, typing imports included."""
    graph = grimp.build_graph("simsys", cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        package = module.split(".")[1:2]
        for target in graph.find_modules_directly_imported_by(module):
            if package and target != "simsys" and target.split(".")[1:2] != package:
                found.setdefault(package[0], set()).add(target.split(".")[1])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_what_it_says(package: str, imported: dict[str, set[str]]) -> None:
    stated = re.search(r"^May import: ([^.]+)\.", docstring(package), re.MULTILINE)
    assert stated is not None
    listed = stated.group(1).removeprefix("everything but ")
    names = {name.strip() for name in listed.split(",")}
    used = imported.get(package, set())
    assert used.isdisjoint(names) if listed != stated.group(1) else used <= names, used


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_where_to_start(package: str) -> None:
    start = re.search(r"^Start with .*?(?=\n\n|\Z)", docstring(package), re.MULTILINE | re.DOTALL)
    assert start is not None
    files = named_modules(start.group())
    assert files
    assert [name for name in files if not (ROOT / "simsys" / package / name).is_file()] == []


PUBLIC = [name for name in simsys.__all__ if not name.startswith("_")]


def test_no_public_name_is_that_of_a_package_or_module() -> None:
    submodules = {path.stem for path in (ROOT / "simsys").iterdir() if path.suffix == ".py" or path.name in PACKAGES}
    assert submodules.isdisjoint(PUBLIC)


FUNCTIONS = {"compare": "comparisons", "emit": "deployments", "search": "searches", "sweep": "sweeps"}


@pytest.mark.parametrize(("function", "package"), FUNCTIONS.items())
def test_a_function_is_the_public_name_whatever_was_imported_before(function: str, package: str) -> None:
    code = f"import simsys.{package}; from simsys import {function}; assert callable({function})"
    subprocess.run([sys.executable, "-c", code], check=True)
