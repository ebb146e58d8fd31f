"""The page of the public names of Python, from `simsys.__all__` and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import simsys
from scripts.reference.markdown import MADE, prose, table
from simsys.report.prose import wrapped

INTRODUCTION = f"""\
# Python

{MADE}

`from simsys import …` gives these names. Your modules use `simsys.framework`, and are tested with
`simsys.testing` ([how to add a module](../how-to/extending.md)). The site of `make docs` has the signature and
the whole docstring of each name below the table.
"""


def page_text() -> str:
    """Return the page as Markdown."""
    names = [name for name in simsys.__all__ if not name.startswith("_")]
    found = {name: getattr(simsys, name) for name in names}
    documented = [name for name, value in found.items() if inspect.isclass(value) or inspect.isroutine(value)]
    lines = [INTRODUCTION, *table(("name", "what it is"), ((f"`{name}`", _first(found[name])) for name in documented))]
    return wrapped("\n".join([*lines, *_directives(found, documented)])).rstrip("\n") + "\n"


def _first(value: object) -> str:
    return prose((inspect.getdoc(value) or "").split("\n\n")[0])


def _directives(found: dict[str, object], documented: list[str]) -> Iterator[str]:
    for name in documented:
        value = found[name]
        yield from (f"::: {getattr(value, '__module__', 'simsys')}.{name}", "")
