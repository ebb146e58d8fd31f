"""Check the sizes of files and functions, that imports go down only, and that no modules form a circle.

Imports within functions and for type checkers count: whoever reads one file of a circle has to read all of them. The
layers are those of `pyproject.toml`, which import-linter holds for what is loaded. Run by `make lint`.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES = 300
"""The longest that a file may be."""
FUNCTION_LINES = 50
"""The longest that a function may be, from `def` to its last line, with its docstring."""


@dataclass(frozen=True)
class Exceptions:
    """What is past a limit and known to be. An entry that is not needed any more is an error: the list only shrinks.

    Args:
        files: Paths of files, relative to the folder of the packages.
        functions: Names of functions, as `path:name`.
        circles: Modules that may import each other in a circle.
    """

    files: Collection[str] = ()
    functions: Collection[str] = ()
    circles: Sequence[frozenset[str]] = field(default_factory=list)


KNOWN = Exceptions(
    files={},
    functions={},
    circles=[],
)
"""What is still past the limits; nothing may be added."""


def python_files(root: Path, packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Path relative to the root, and text, of each file of the packages."""
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")


def long_files(root: Path, packages: Sequence[str]) -> dict[str, int]:
    """Lines of the files that are too long, by path."""
    lines = {path: len(text.splitlines()) for path, text in python_files(root, packages)}
    return {path: count for path, count in lines.items() if count > FILE_LINES}


def long_functions(root: Path, packages: Sequence[str]) -> dict[str, int]:
    """Lines of the functions that are too long, by `path:name`."""
    found: dict[str, int] = {}
    for path, text in python_files(root, packages):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    found[f"{path}:{node.name}"] = lines
    return found


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


def problems(root: Path, packages: Sequence[str], known: Exceptions) -> list[str]:
    """What is past a limit without being known, and what is known without being past it."""
    files, functions, graph = long_files(root, packages), long_functions(root, packages), import_graph(packages)
    rings = circles(graph)
    found = [
        f"{path}: {lines} lines, at most {FILE_LINES} are allowed"
        for path, lines in files.items()
        if path not in known.files
    ]
    found += [
        f"{name}: {lines} lines, at most {FUNCTION_LINES} are allowed in a function"
        for name, lines in functions.items()
        if name not in known.functions
    ]
    found += [
        f"modules import each other in a circle: {', '.join(sorted(ring))}"
        for ring in rings
        if not any(ring <= allowed for allowed in known.circles)
    ]
    found += upward_imports(graph, layers_of((root / "pyproject.toml").read_text(encoding="utf-8")))
    unneeded = [
        *sorted(set(known.files) - files.keys()),
        *sorted(set(known.functions) - functions.keys()),
        *(", ".join(sorted(allowed)) for allowed in known.circles if not any(ring <= allowed for ring in rings)),
    ]
    return found + [f"{name}: within the limits now; remove it from the exceptions" for name in unneeded]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; the exit code is 1 if something is."""
    parser = argparse.ArgumentParser(description="Check sizes of files and functions, and circles of imports.")
    parser.add_argument("packages", nargs="*", default=["simsys", "frameworks"], help="packages to check")
    packages = parser.parse_args(arguments).packages
    found = problems(ROOT, packages, KNOWN)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
