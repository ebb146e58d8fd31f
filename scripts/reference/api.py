"""The page of the public names of Python, from `__all__` of three modules and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from scripts.reference.markdown import MADE, prose, table
from simsys.report.prose import wrapped

INTRODUCTION = f"""\
# Python

{MADE}

Names that are imported with `from simsys import …`, those of modules of your own, and those of their tests
([how to add a module](../how-to/extending.md)). The site of `make docs` has the signature and the whole docstring of
each name below its table.
"""
MODULES = {
    "simsys": "To simulate",
    "simsys.framework": "To write modules",
    "simsys.testing": "To test modules",
}


def page_text() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION, *(line for name, title in MODULES.items() for line in _section(name, title))]
    return wrapped("\n".join(lines)).rstrip("\n") + "\n"


def documented(module: ModuleType) -> dict[str, object]:
    """The classes and functions that a module offers, by name."""
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in found.items()
        if (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("simsys")
    }


def _section(name: str, title: str) -> Iterator[str]:
    found = documented(import_module(name))
    yield from (f"## {title}: `{name}`", "")
    yield from table(("name", "what it is"), ((f"`{key}`", _first(value)) for key, value in found.items()))
    for key, value in found.items():
        if inspect.isclass(value) or inspect.isfunction(value):
            yield from (f"::: {value.__module__}.{key}", "")


def _first(value: object) -> str:
    return prose((inspect.getdoc(value) or "").split("\n\n")[0])
