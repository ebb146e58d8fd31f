"""The files of a run: scenario with all defaults, metrics, bottlenecks, and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.analysis.losses import largest_losses
from simsys.build.relocation import relocated
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.metrics.serving_log import ServingLog
from simsys.report.bench_serve import bench_result, bench_text, model_id
from simsys.report.csv_table import write_columns
from simsys.report.earlier_results import keep_earlier, place_of_earlier
from simsys.report.files import Writer, write_files
from simsys.report.prometheus import write_prometheus
from simsys.report.yaml_text import yaml_text
from simsys.traces.record import Record

Tables: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]
"""Columns by table."""
NO_TABLES: Tables = MappingProxyType({})
ROWS = {"training": "iterations", "serving": "requests", "jobs": "jobs"}
"""Names of the rows of a result, by kind."""


def write_results(
    config: SimulationConfig,
    result: RunResult,
    folder: Path,
    more: Tables = NO_TABLES,
    records: Sequence[Record] = (),
) -> list[Path]:
    """Write a run's files into ``folder/<name>``, replacing those of an earlier run of the same configuration.

    Files of another configuration are moved first (`keep_earlier`), next to this folder.

    Files are ``<name>_config.yaml``, which reproduces the same files byte by byte, ``<name>_results.json``,
    ``<name>_bottlenecks.json``, ``<name>_iterations.csv`` or ``<name>_requests.csv``, and for training
    ``<name>_ranks.csv``: the time of one rank per pipeline stage by activity (`RunResult.ranks`). Serving also has
    ``<name>_timeline.csv``, means over intervals of the run (`simsys.metrics.serving_timeline`),
    ``<name>_serving.json`` (`simsys.report.bench_serve`) and ``<name>_metrics.prom`` (`simsys.report.prometheus`);
    with autoscaling, ``<name>_replicas.csv``: the numbers of active and of paid replicas over time. If events are
    collected, ``<name>_memory.csv`` has the memory in use on each simulated GPU over time, ``<name>_traffic.csv`` the
    bytes between each pair of GPUs, and ``<name>_steps.csv`` the steps of serving replicas, one row for each run of
    steps with an unchanged batch. Where transfers are on links (at high, and at medium where links are occupied),
    ``<name>_links.csv`` has the bytes and the utilisation of each used link.

    A shared cluster has ``<name>_jobs.csv`` with times and placement of each job, and the tables of each job with its
    name.

    Args:
        config: The scenario.
        result: Its result.
        folder: Parent of the folder of the files.
        more: Further tables, each as ``<name>_<table>.csv``.
        records: What else was recorded, each with a file of its own: a trace, the event history.

    Returns:
        The files.

    Raises:
        OutputError: If one could not be written; none is left half-written.
    """
    target = folder / config.name
    settings = config_yaml(config, target)
    keep_earlier(target, config.name, settings)
    recorded = {f"{config.name}_{each.name}": partial(each.write, result) for each in records}
    return write_files(target, {**_writers(config, result, settings, more), **recorded})


def _writers(config: SimulationConfig, result: RunResult, settings: str, more: Tables) -> dict[str, Writer]:
    """The files of the result; `settings` is the text of the configuration."""
    return {
        f"{config.name}_config.yaml": lambda file: file.write(settings),
        f"{config.name}_results.json": lambda file: file.write(json_text(result.as_dict())),
        f"{config.name}_bottlenecks.json": lambda file: file.write(json_text(findings(result))),
        **{
            f"{config.name}_{name}.csv": partial(write_columns, table=table)
            for name, table in {**all_tables(config, result), **more}.items()
            if table
        },
        **(_serving(config, result) if config.kind == "serving" else {}),
    }


def earlier_results(config: SimulationConfig, folder: Path) -> Path | None:
    """Where `write_results` would move the results of another configuration; None if there are none."""
    target = folder / config.name
    return place_of_earlier(target, config.name, config_yaml(config, target))


def findings(result: RunResult) -> dict[str, Any]:
    """Losses and bottlenecks as data for JSON."""
    return {
        "schema_version": 1,
        "losses": [loss.as_dict() for loss in largest_losses(result)],
        "bottlenecks": [found.as_dict() for found in find_bottlenecks(result)],
    }


def all_tables(config: SimulationConfig, result: RunResult) -> dict[str, Mapping[str, Sequence[Any]]]:
    """The tables of a run and of its jobs; a table without columns is not written."""
    links = result.links if any(result.links.values()) else {}
    tables = {**_tables(result), "links": links, "traffic": result.traffic}
    for job in result.jobs:
        tables |= {f"{job.name}_{name}": table for name, table in _tables(job).items()}
    if config.simulation.collect_events:
        tables |= {name: log.steps.columns() for name, log in _logs(result).items()}
    return tables


def _tables(result: RunResult) -> dict[str, Mapping[str, Sequence[Any]]]:
    """The tables of a run, or of one of its jobs."""
    return {
        ROWS[result.kind]: result.rows,
        "ranks": result.ranks,
        "replicas": result.replica_changes,
        "memory": result.memory_timeline,
        "timeline": result.timeline,
    }


def _logs(result: RunResult) -> dict[str, ServingLog]:
    """Tables about serving steps, by name."""
    of_jobs = {f"{job.name}_steps": job.requests for job in result.jobs}
    return {name: log for name, log in {"steps": result.requests, **of_jobs}.items() if log is not None}


def _serving(config: SimulationConfig, result: RunResult) -> dict[str, Writer]:
    bench = partial(bench_result, config, result)
    return {
        f"{config.name}_serving.json": lambda file: file.write(bench_text(bench())),
        f"{config.name}_metrics.prom": partial(write_prometheus, result, model_id(config)),
    }


def json_text(data: Any) -> str:
    """JSON for people and programs, in ASCII; a NaN, which JSON does not have, is a bug and raises ValueError."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def write_config(config: SimulationConfig, folder: Path) -> Path:
    """Write a scenario as ``<name>_config.yaml`` into a folder.

    Raises:
        OutputError: If it could not be written.
    """
    text = config_yaml(config, folder)
    return write_files(folder, {f"{config.name}_config.yaml": lambda file: file.write(text)})[0]


def config_yaml(config: SimulationConfig, folder: Path) -> str:
    """Write a scenario as a file that runs from `folder`: all settings, quantities with units.

    Settings without a value are left out. Relative paths, which start from the original's folder, are rewritten.
    """
    return yaml_text(relocated(config, folder))
