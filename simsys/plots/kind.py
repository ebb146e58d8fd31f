"""Kinds of pictures: what each shows, what it needs, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simsys.contents.printed import Printed
from simsys.contents.run import RunContent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Lacks = Callable[[Any], str]
"""Says what some content lacks for a picture; nothing if it lacks nothing."""


@dataclass(frozen=True)
class Kind:
    """One kind of picture.

    Args:
        name: Its name, also of files.
        shows: What it shows, in a line.
        of: The type of content that it is drawn from, or several.
        lacks: What some content of this type lacks for it; empty if nothing.
        draw: Draws it.
    """

    name: str
    shows: str
    of: type | tuple[type, ...]
    lacks: Lacks
    draw: Callable[[Any], Figure]

    def obstacle(self, content: Any) -> str:
        """Why it cannot be drawn from some content; empty if it can."""
        if not isinstance(content, self.of):
            return f"is not drawn from {_noun(content)}"
        return self.lacks(content)


KINDS: dict[str, Kind] = {}
"""All kinds by name, after `simsys.plots.kinds` was imported."""


def kind(
    name: str, shows: str, of: type | tuple[type, ...], lacks: Lacks = lambda _: ""
) -> Callable[[Callable[[Any], Figure]], Callable[[Any], Figure]]:
    """Decorator that registers the function as the drawing of a kind; arguments as for `Kind`."""

    def registered(draw: Callable[[Any], Figure]) -> Callable[[Any], Figure]:
        KINDS[name] = Kind(name, shows, of, lacks, draw)
        return draw

    return registered


def needs(kinds: tuple[str, ...] = (), *tables: str, hint: str = "") -> Lacks:
    """What a run lacks: it is of another kind, or has no rows in one of these tables.

    Args:
        kinds: The kinds of runs; all if empty.
        tables: The tables.
        hint: How to get the tables.
    """

    def lacks(run: RunContent) -> str:
        if kinds and run.kind not in kinds:
            return f"is of {' and '.join(kinds)}, but {run.name} is {run.kind}"
        for table in tables:
            if not any(run.tables.get(table, {}).values()):
                return f"needs the table '{table}', which {run.name} does not have{hint and f'; {hint}'}"
        return ""

    return lacks


WITH_PLOTS = "run it with --plots"
"""The hint of tables that only ``run --plots`` writes."""


def of_command(command: str) -> Lacks:
    """What the output of another command lacks."""
    return lambda found: "" if found.command == command else f"is not drawn from {_noun(found)}"


def _noun(content: Any) -> str:
    if isinstance(content, Printed):
        return f"the output of simsys {content.command}"
    return "a run" if isinstance(content, RunContent) else "a sweep"
