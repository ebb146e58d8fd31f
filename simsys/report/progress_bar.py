"""Progress bar of commands that simulate many runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Context manager that shows a bar on stderr, if that is a terminal.

    Args:
        what: The counted things, such as ``runs``.

    Yields:
        A function of the number done and the total; a new total starts a new bar.
    """
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
