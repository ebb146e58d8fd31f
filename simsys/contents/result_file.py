"""The file with the results of a run: where it is, and what it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.input_files import parse_json, read_text, unreadable
from simsys.metrics.result import SCHEMA_VERSION

RESULTS, CONFIG = "_results.json", "_config.yaml"
KINDS = ("training", "serving", "jobs")


def results_file(folder: Path) -> Path:
    """The file with the results of the run in a folder.

    Raises:
        UsageError: There is none, or there are several.
    """
    found = sorted(folder.glob(f"*{RESULTS}"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(file.name for file in found)
        raise UsageError(f"{folder}: results of several runs ({names}); each needs a folder of its own")
    inside = sorted({file.parent for file in folder.glob(f"*/*{RESULTS}")})
    hint = f"; give one of its folders: {', '.join(map(str, inside[:5]))}" if inside else ""
    raise UsageError(f"{folder}: no results of simsys run, which are a file *{RESULTS}{hint}")


def result_content(path: Path) -> Mapping[str, Any]:
    """Read a file of results and check its form."""
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    if not isinstance(found, dict) or "schema_version" not in found:
        raise UsageError(f"{path}: no result of simsys run: it has no schema_version")
    if found["schema_version"] != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: format {found['schema_version']!r} of results, written by simsys {found.get('simsys_version')}; "
            f"this version reads format {SCHEMA_VERSION}: run the scenario again"
        )
    metrics = found.get("metrics")
    if found.get("kind") not in KINDS or not isinstance(metrics, dict):
        raise UsageError(f"{path}: no result of simsys run: it needs a kind ({', '.join(KINDS)}) and metrics")
    return found
