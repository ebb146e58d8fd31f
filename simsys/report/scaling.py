"""Scaling studies as text, and as files that can be read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from simsys.analysis.scaling import MODES
from simsys.analysis.scaling_result import FIGURES, ScalingPoint, ScalingResult
from simsys.errors import UsageError
from simsys.input_files import parse_json, read_text, unreadable
from simsys.report.csv_table import write_columns
from simsys.report.export import json_text
from simsys.report.files import write_files
from simsys.version import __version__

SCHEMA_VERSION = 1
"""Version of the file; incremented by changes that could break a reader."""
KIND = "scaling"
PLAIN = ("nodes", "gpus", "batch_size_per_gpu", "iteration_s", "samples_per_s", "problem")
"""Columns of a study that are fields of its points."""


def scaling_text(studies: Sequence[ScalingResult]) -> str:
    """The studies for people."""
    return "\n\n".join(study.summary() for study in studies)


def scaling_content(name: str, studies: Sequence[ScalingResult]) -> dict[str, Any]:
    """The studies of a scenario as data for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "simsys_version": __version__,
        "kind": KIND,
        "name": name,
        "studies": [study.as_dict() for study in studies],
    }


def write_scaling(name: str, studies: Sequence[ScalingResult], folder: Path) -> list[Path]:
    """Write ``<name>_scaling.json``, and a table ``<name>_scaling_<mode>.csv`` of each study, into ``folder/<name>``.

    Returns:
        The files.

    Raises:
        OutputError: If one could not be written; none is left half-written.
    """
    content = json_text(scaling_content(name, studies))
    tables = {f"{name}_scaling_{each.mode}.csv": partial(write_columns, table=each.rows) for each in studies}
    return write_files(folder / name, {f"{name}_scaling.json": lambda file: file.write(content), **tables})


def read_scaling(path: Path) -> list[ScalingResult]:
    """Read the studies of a file that `write_scaling` has written.

    Raises:
        UsageError: If it cannot be read, is incomplete, of another format, or not such a file.
    """
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UsageError(f"{path}: this is not a file of scaling studies that simsys scale has written")
    if found.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: format {found.get('schema_version')!r} of scaling studies, written by simsys "
            f"{found.get('simsys_version')}; this version reads format {SCHEMA_VERSION}: run simsys scale again"
        )
    try:
        return [_study(each) for each in found["studies"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{path}: incomplete: {_what(error)}; run simsys scale again") from None


def _study(found: Mapping[str, Any]) -> ScalingResult:
    rows = found["rows"]
    if found["mode"] not in MODES or not rows["nodes"] or all(rows["problem"]):
        raise ValueError("a study without a mode or without a simulated size")
    figures = [name for name in FIGURES if name in rows]
    points = [
        ScalingPoint(
            **{name: rows[name][place] for name in PLAIN},
            figures={name: rows[name][place] for name in figures if rows[name][place] is not None},
        )
        for place in range(len(rows["nodes"]))
    ]
    return ScalingResult(str(found["name"]), found["mode"], points)


def _what(error: Exception) -> str:
    return f"no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
