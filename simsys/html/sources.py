"""From contents to pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simsys.contents.printed import Printed
from simsys.contents.read import read_contents
from simsys.contents.run import RunContent
from simsys.contents.sweep import SweepContent
from simsys.errors import UsageError
from simsys.html.analysis import analyses_page
from simsys.html.blocks import Page
from simsys.html.compare import compare_page
from simsys.html.level_study import level_study_page
from simsys.html.run import run_page
from simsys.html.scaling import scaling_page
from simsys.html.search import search_page
from simsys.html.sweep import sweep_page
from simsys.html.validation import validation_page

PAGES: Mapping[str, Callable[[Mapping[str, Any]], Page]] = {
    "analyze": analyses_page,
    "compare": compare_page,
    "lod": level_study_page,
    "scale": scaling_page,
    "search": search_page,
    "validate": validation_page,
}
"""By command, the page of its output."""


def page_of_paths(paths: Sequence[Path], *, analyze: bool = False) -> Page:
    """Read results and lay them out.

    Args:
        paths: As for `read_contents`.
        analyze: Simulate remedies of the bottlenecks of runs.

    Raises:
        UsageError: A path has no results that a page shows, or they cannot share one.
    """
    try:
        contents = read_contents(paths)
        if analyze and isinstance(contents, list):
            contents = [_analyzed(run) for run in contents]
        return page_of(contents)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UsageError(f"{paths[0]}: this output is incomplete or of another version ({error!r})") from None


def _analyzed(run: RunContent) -> RunContent:
    """A run with what limits it and what helps."""
    from simsys.analysis.analyze import analyze

    if run.folder is None:
        return run
    found = analyze(str(run.folder))[0]
    return replace(run, findings={**run.findings, "analysis": found.as_dict()})


def page_of(content: Sequence[RunContent] | SweepContent | Printed) -> Page:
    """The page of runs, of a sweep, or of what a command has printed."""
    if isinstance(content, Printed):
        return PAGES[content.command](content.data)
    return sweep_page(content) if isinstance(content, SweepContent) else run_page(content)
