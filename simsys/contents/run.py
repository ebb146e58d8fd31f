"""The content of a run: of a folder that `simsys run` has written, or of a result in memory."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.contents.result_file import CONFIG, RESULTS, result_content, results_file
from simsys.errors import UsageError
from simsys.input_files import parse_json, read_text, unreadable
from simsys.metrics.result import RunResult
from simsys.report.export import NO_TABLES, Tables, all_tables, config_yaml, findings

TABLES = ("iterations", "ranks", "requests", "timeline", "replicas", "links", "jobs", "memory")
"""Tables that a page shows, each a file ``<name>_<table>.csv``."""
DRAWN = ("traffic", "activity", "passes", "held", "loads", "gaps")
"""Tables for pictures alone; ``run --plots`` writes those that other runs do not have."""


@dataclass(frozen=True)
class RunContent:
    """What is known of a run.

    Args:
        result: The reproducible part of its result, as in ``<name>_results.json``.
        findings: Losses and bottlenecks, as in ``<name>_bottlenecks.json``.
        tables: Columns by table.
        settings: Its configuration with all defaults, as YAML.
        command: What runs it again.
        folder: The folder with its files, if it has one.
    """

    result: Mapping[str, Any]
    findings: Mapping[str, Any]
    tables: Tables
    settings: str = ""
    command: str = ""
    folder: Path | None = None

    @property
    def name(self) -> str:
        """The scenario."""
        return str(self.result["name"])

    @property
    def kind(self) -> str:
        """``training``, ``serving`` or ``jobs``."""
        return str(self.result["kind"])

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Metrics by name."""
        found: Mapping[str, Any] = self.result["metrics"]
        return found

    @property
    def memory_bytes(self) -> Mapping[str, float]:
        """Peak memory of the fullest GPU, by component; empty of several jobs."""
        found: Mapping[str, float] = self.result.get("memory_bytes") or {}
        return found

    @property
    def jobs(self) -> list[RunContent]:
        """The jobs that share the cluster, each with its own tables."""
        return [
            RunContent(
                job,
                {},
                {
                    table: self.tables[f"{job['name']}_{table}"]
                    for table in (*TABLES, *DRAWN)
                    if f"{job['name']}_{table}" in self.tables
                },
            )
            for job in self.result.get("jobs", ())
        ]

    def as_result(self) -> RunResult:
        """The parts of the result that the headline needs."""
        return _as_result(self.result)


def content_of(
    config: SimulationConfig, result: RunResult, more: Tables = NO_TABLES, folder: Path | None = None
) -> RunContent:
    """The content of a result in memory, as its files would have it.

    Args:
        config: The scenario.
        result: Its result.
        more: Further tables.
        folder: Parent of the folder with its files; None if it has none.
    """
    tables = {name: table for name, table in all_tables(config, result).items() if table}
    place = folder / config.name if folder is not None else Path()
    command = "" if folder is None else _command(place / f"{config.name}{CONFIG}")
    files = place if folder is not None else None
    found = {**tables, **more}
    return RunContent(result.as_dict(), findings(result), found, config_yaml(config, place), command, files)


def read_run(folder: Path) -> RunContent:
    """Read the files of a run; files that only a longer page would show may be missing.

    Raises:
        UsageError: The folder has no results of a run, or a file is damaged or of another version.
    """
    file = results_file(folder)
    result = result_content(file)
    name = file.name.removesuffix(RESULTS)
    config = folder / f"{name}{CONFIG}"
    jobs = [f"{job['name']}_" for job in result.get("jobs", ())]
    names = [f"{job}{table}" for job in ("", *jobs) for table in (*TABLES, *DRAWN)]
    return RunContent(
        result,
        _findings(folder / f"{name}_bottlenecks.json"),
        {table: _columns(path) for table in names if (path := folder / f"{name}_{table}.csv").is_file()},
        _text(config) if config.is_file() else "",
        _command(config) if config.is_file() else "",
        folder,
    )


def _command(config: Path) -> str:
    """What runs a scenario again."""
    return shlex.join(["simsys", "run", str(config)])


def _as_result(found: Mapping[str, Any]) -> RunResult:
    return RunResult(
        name=str(found["name"]),
        kind=str(found["kind"]),
        lod=str(found.get("level_of_detail", "")),
        contention=str(found.get("contention", "")),
        metrics=found["metrics"],
        rows={},
        jobs=[_as_result(job) for job in found.get("jobs", ())],
    )


def _findings(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = parse_json(_text(path))
    except ValueError as error:
        raise UsageError(unreadable(path, error)) from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: this is not a file of bottlenecks that simsys run has written")
    return found


def _columns(path: Path) -> Mapping[str, Sequence[Any]]:
    """A table as columns, with numbers as numbers."""
    try:
        head, *rows = list(csv.reader(io.StringIO(_text(path), newline="")))
    except (csv.Error, ValueError) as error:
        raise UsageError(f"{path}: this is not a table that simsys run has written: {error}") from None
    if any(len(row) != len(head) for row in rows):
        raise UsageError(f"{path}: rows have different numbers of cells; run the scenario again")
    columns = zip(*rows, strict=True) if rows else ([] for _ in head)
    return {name: _values(column) for name, column in zip(head, columns, strict=True)}


def _values(cells: Sequence[str]) -> Sequence[Any]:
    for kind in (int, float):
        try:
            return [None if text == "" else kind(text) for text in cells]
        except ValueError:
            continue
    return list(cells)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
