"""Check the sizes of files and functions, that imports go down only, and that no modules form a circle.

Imports within functions and for type checkers count: a reader of one file of a circle has to read all of them. The
layers are those of `pyproject.toml`, which import-linter holds for what is loaded. Run by `make lint`.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES = 300
"""The longest that a file may be."""
FUNCTION_LINES = 50
"""The longest that a function may be, from `def` to its last line, with its docstring."""


def python_files(root: Path, packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Path relative to the root, and text, of each file of the packages."""
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")


def long_files(root: Path, packages: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Path and lines of each file that is too long."""
    for path, text in python_files(root, packages):
        lines = len(text.splitlines())
        if lines > FILE_LINES:
            yield path, lines


def long_functions(root: Path, packages: Sequence[str]) -> Iterator[tuple[str, int]]:
    """`path:name` and lines of each function that is too long."""
    for path, text in python_files(root, packages):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield f"{path}:{node.name}", lines


def import_graph(packages: Sequence[str]) -> grimp.ImportGraph:
    """All imports of packages that can be imported; the files are read, not run."""
    return grimp.build_graph(*packages, cache_dir=None, exclude_type_checking_imports=False)


def circles(graph: grimp.ImportGraph) -> list[frozenset[str]]:
    """Sets of modules each of which imports all others, directly or through others."""
    imports = nx.DiGraph()
    for module in graph.modules:
        imports.add_edges_from((module, imported) for imported in graph.find_modules_directly_imported_by(module))
    found = [frozenset(modules) for modules in nx.strongly_connected_components(imports) if len(modules) > 1]
    return sorted(found, key=sorted)


def layers_of(pyproject: str) -> list[frozenset[str]]:
    """The layers that a `pyproject.toml` states for import-linter, from the top: modules side by side in each."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    lines = [line for contract in contracts if contract["type"] == "layers" for line in contract["layers"]]
    return [frozenset(name.strip().strip("()") for name in line.split(":")) for line in lines]


def upward_imports(graph: grimp.ImportGraph, layers: Sequence[frozenset[str]]) -> list[str]:
    """Packages that import a package of a higher layer, directly or through modules of no layer."""
    present = [frozenset(name for name in layer if name in graph.modules) for layer in layers]
    found = graph.find_illegal_dependencies_for_layers(
        [grimp.Layer(*sorted(layer), independent=False) for layer in present if layer]
    )
    return sorted(f"{each.importer} imports {each.imported}, which is above it" for each in found)


def problems(root: Path, packages: Sequence[str]) -> list[str]:
    """What is past a limit."""
    graph = import_graph(packages)
    return [
        *(f"{path}: {lines} lines, at most {FILE_LINES} are allowed" for path, lines in long_files(root, packages)),
        *(
            f"{name}: {lines} lines, at most {FUNCTION_LINES} are allowed in a function"
            for name, lines in long_functions(root, packages)
        ),
        *(f"modules import each other in a circle: {', '.join(sorted(ring))}" for ring in circles(graph)),
        *upward_imports(graph, layers_of((root / "pyproject.toml").read_text(encoding="utf-8"))),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; the exit code is 1 if something is."""
    parser = argparse.ArgumentParser(description="Check sizes of files and functions, and circles of imports.")
    parser.add_argument("packages", nargs="*", default=["simsys", "frameworks"], help="packages to check")
    packages = parser.parse_args(arguments).packages
    found = problems(ROOT, packages)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
