"""Lines of pages in Markdown that programs write: as wide as lines of code may be."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 119
_ITEM = re.compile(r"\s*(?:[-*] |\d+\. )?")
_NO_PROSE = ("|", "#", ">", "<", "![")
"""How lines begin that may not be divided: tables, headings, quotations, HTML and pictures."""


def wrapped(page: str) -> str:
    r"""Return a page whose lines of prose have at most 119 columns; those of code and tables stay as they are.

    >>> wrapped("- " + "word " * 40).split("\n")[1][:8]
    '  word w'
    """
    return "\n".join(_lines(page))


def _lines(page: str) -> Iterator[str]:
    code = False
    for line in page.split("\n"):
        if line.lstrip().startswith("```"):
            code = not code
        if code or len(line) <= WIDTH or line.lstrip().startswith(_NO_PROSE):
            yield line
        else:
            yield from _pieces(line)


def _pieces(line: str) -> list[str]:
    start = _ITEM.match(line)
    first = start[0] if start else ""
    return textwrap.wrap(
        line[len(first) :],
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
