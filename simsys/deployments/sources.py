"""From an experiment file, or a folder of results, to the files of its scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simsys.check import check_file
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import ScenarioSource, read_sources
from simsys.config.places import key_path
from simsys.config.validation import problem_at
from simsys.deployments.emission import emit
from simsys.deployments.target import EmittedFile
from simsys.errors import ConfigError, Problem, UsageError


class Emitted(NamedTuple):
    """The files of one scenario for one tool."""

    scenario: SimulationConfig
    target: str
    files: list[EmittedFile]


def emitted_scenarios(
    path: Path,
    targets: Sequence[str],
    assignments: Sequence[str] = (),
    names: Sequence[str] = (),
    *,
    release: str | None = None,
    checkpoint: str | None = None,
) -> list[Emitted]:
    """The files of all scenarios for all tools.

    Args:
        path: An experiment file, or the folder of the results of one scenario.
        targets: Names of the tools.
        assignments: Settings from the command line, such as ``"parallelism.tp_degree=4"``.
        names: Which scenarios; all if empty.
        release: Release of the tool; by default the one for which a target was written.
        checkpoint: Path or Hugging Face id of the weights.

    Raises:
        ConfigError: With every problem of the scenarios, or every setting that a tool cannot express, at its line.
        UsageError: There is no such target, or a folder has no results of one scenario.
    """
    file = experiment_of(path)
    sources = {source.name: source for source in read_sources(file, assignments, names)}
    found: list[Emitted] = []
    problems: list[Problem] = []
    for built in check_file(file, assignments, names):
        scenario = built.config
        for target in targets:
            try:
                files = emit(scenario, target, release=release, checkpoint=checkpoint)
                found.append(Emitted(scenario, target, files))
            except ConfigError as error:
                problems += (_located(problem, sources.get(scenario.name)) for problem in error.problems)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return found


def experiment_of(path: Path) -> Path:
    """The file of a scenario: the path itself, or the configuration in a folder of results.

    Raises:
        UsageError: A folder that has no configuration, or several.
    """
    if not path.is_dir():
        return path
    configs = sorted(path.glob("*_config.yaml"))
    if len(configs) != 1:
        found = f"{len(configs)} of them" if configs else "none"
        raise UsageError(f"{path}: the folder of one result has one file ..._config.yaml, here there are {found}")
    return configs[0]


def _located(problem: Problem, source: ScenarioSource | None) -> Problem:
    if source is None or problem.file or not problem.path:
        return problem
    return problem_at(source, key_path(problem.path), problem.message)
