"""Tables of text, laid out by rich, without colours and lines."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

GAP = 2
LEAST = 20
"""The least width of the last column, which is wrapped."""
UNLIMITED = 10_000


def text_table(rows: Sequence[Sequence[str]], width: int = UNLIMITED) -> list[str]:
    """The lines of a table.

    Args:
        rows: The cells, with the headings first; all rows have equally many.
        width: Columns of the terminal in which the last column is wrapped.

    Example:
        >>> text_table([["tp", "what"], ["16", "wide"]])
        ['tp  what', '16  wide']
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return []
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
    others = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)][:-1]
    for column in others:
        table.add_column(no_wrap=True, min_width=column)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    width = max(width, sum(others) + GAP * len(others) + LEAST)
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False, emoji=False, markup=False)
    with console.capture() as found:
        console.print(table)
    return [line.rstrip() for line in found.get().splitlines()]
