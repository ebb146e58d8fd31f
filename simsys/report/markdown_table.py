"""Tables of Markdown pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty line after it.

    Example:
        >>> markdown_table(("a", "b"), [["1", "x|y"]])
        ['| a | b |', '| --- | --- |', '| 1 | x/y |', '']
    """
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines), ""]
