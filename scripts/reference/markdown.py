"""Tables and paragraphs of generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

MADE = "Made by `scripts/make_reference.py`; not to be edited."


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table, and an empty one after it."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell(text) for text in row)} |"
    yield ""


def cell(text: str) -> str:
    """Return text that may stand in a table: on one line, with its bars escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: code has one backtick, roles of Sphinx are code."""
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", docstring.replace("``", "`"))
