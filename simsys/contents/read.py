"""From paths to contents: folders of results, the folder of a sweep, or the JSON that a command has printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.contents.printed import Printed, read_printed
from simsys.contents.run import RunContent, read_run
from simsys.contents.sweep import SweepContent, content_of_store
from simsys.errors import UsageError
from simsys.sweeps.store import FILENAME, Store

Content = RunContent | SweepContent | Printed


def read_contents(paths: Sequence[Path]) -> list[RunContent] | SweepContent | Printed:
    """Read results.

    Args:
        paths: Folders of runs, or of folders of runs; or one folder of a sweep; or one JSON file.

    Returns:
        The runs; or the one thing that is not a run.

    Raises:
        UsageError: A path has no results, or the results cannot be read together.
    """
    special = [path for path in paths if not path.is_dir() or (path / FILENAME).is_file()]
    if not special:
        return [read_run(folder) for path in paths for folder in _folders(path)]
    if len(paths) > 1:
        raise UsageError(f"{special[0]}: only folders of runs share a page; give this one alone")
    path = special[0]
    if not path.is_dir():
        return read_printed(path)
    with Store(path) as store:
        return content_of_store(store)


def _folders(path: Path) -> list[Path]:
    """The folder itself, or its folders with results, such as those of ``results/``."""
    if list(path.glob("*_results.json")):
        return [path]
    return sorted({file.parent for file in path.glob("*/*_results.json")}) or [path]
