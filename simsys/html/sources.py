"""From a path to a page: a folder of results, the folder of a sweep, or the JSON that a command has printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.html.blocks import Page
from simsys.html.compare import compare_page
from simsys.html.level_study import level_study_page
from simsys.html.results import read_run
from simsys.html.run import run_page
from simsys.html.search import search_page
from simsys.html.sweep import sweep_page
from simsys.html.validation import validation_page
from simsys.input_files import parse_json, read_text, unreadable
from simsys.sweeps.store import FILENAME, Store
from simsys.sweeps.table import table_of

PRINTED: Mapping[str, tuple[set[str], Callable[[Mapping[str, Any]], Page]]] = {
    "compare": ({"comparison"}, lambda found: compare_page(found["comparison"])),
    "lod": ({"scenarios", "machine"}, level_study_page),
    "search": ({"best", "considered"}, search_page),
    "validate": ({"validation"}, lambda found: validation_page(found["validation"])),
}
"""By command, the keys by which its output with ``--json`` is known, and its page."""


def page_of(paths: Sequence[Path]) -> Page:
    """Read results and lay them out.

    Args:
        paths: Folders of runs, which share a page; or one folder of a sweep; or one JSON file.

    Raises:
        UsageError: A path has no results that a page shows, or they cannot share one.
    """
    special = [path for path in paths if not path.is_dir() or (path / FILENAME).is_file()]
    if not special:
        return run_page([read_run(folder) for path in paths for folder in _folders(path)])
    if len(paths) > 1:
        raise UsageError(f"{special[0]}: only folders of runs share a page; give this one alone")
    path = special[0]
    return _of_sweep(path) if path.is_dir() else _of_json(path)


def _folders(path: Path) -> list[Path]:
    """The folder itself, or its folders with results, such as those of ``results/``."""
    if list(path.glob("*_results.json")):
        return [path]
    return sorted({file.parent for file in path.glob("*/*_results.json")}) or [path]


def _of_sweep(folder: Path) -> Page:
    with Store(folder) as store:
        return sweep_page(store.meta().get("name", folder.name), table_of(store), store.paths())


def _of_json(path: Path) -> Page:
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    try:
        page = page_of_printed(found) if isinstance(found, dict) else None
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: this output is incomplete or of another version ({error})") from None
    if page is None:
        raise UsageError(f"{path}: not what one of these commands prints with --json: {', '.join(PRINTED)}")
    return page


def page_of_printed(found: Mapping[str, Any]) -> Page | None:
    """The page of what a command has printed; None if it is not known."""
    return next((page(found) for keys, page in PRINTED.values() if keys <= set(found)), None)
